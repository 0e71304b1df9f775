"""apt's files: package sources, pins, proxies and package lists.

Formats: sources.list(5) with one line for each source, and deb822 stanzas; apt_preferences(5);
https://wiki.debian.org/DebianRepository/Format.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcforge.node.package_manager import SettingsForm

if TYPE_CHECKING:
    from hpcforge.kinds.pins import Pin
    from hpcforge.kinds.sources import PackageSource

SOURCES, SOURCES_FOLDER = Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d")
PINS, PINS_FOLDER = Path("/etc/apt/preferences"), Path("/etc/apt/preferences.d")
LISTS = Path("/var/lib/apt/lists")
_SOURCE_FILE = re.compile(r"[A-Za-z0-9_.-]+\.(?:list|sources)")  # names of files that apt reads
_LINE = re.compile(r"\s*deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)")
_STANZA_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9-]*):(.*)")
_PASSWORD = re.compile(r"//[^/@\s]*@")
_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # a resource's name; apt ignores other names
_KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_PATH = re.compile(r"/\S+")
_PIN_FILE = re.compile(r"[A-Za-z0-9_-]+(?:\.pref)?")  # files that apt reads; it ignores other names
_PIN_FIELD = re.compile(r"(Package|Pin-Priority):(.*)", re.IGNORECASE)
_PIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # a resource's name; apt may ignore one with a dot
_PIN = re.compile(r"(?:version|release|origin) \S.*")
_PACKAGE = re.compile(r"\S+")
_PROXY = re.compile(r"(?:https?://)?(?:[^\s/@]*@)?([^\s/:]+)(?::(\d+))?")  # the whole value of a setting
_CHUNK = 1 << 20
_SIGNED = "-----BEGIN PGP SIGNED MESSAGE-----", "-----END PGP SIGNATURE-----"


class SourceEntry(NamedTuple):
    """A source of binary packages; `disable` is the command that makes apt ignore it."""

    path: Path
    line: int
    uris: tuple[str, ...]
    suites: tuple[str, ...]
    disable: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"

    def has(self, address: str) -> bool:
        """Return whether this address belongs to the source."""
        return any(plain(address).startswith(f"{plain(uri).rstrip('/')}/") for uri in self.uris)

    def named_in(self, message: str) -> bool:
        """Return whether apt's message is about this source."""
        words, message = message.split(), plain(message)
        suites = any(suite in words or f"/dists/{suite}/" in message for suite in self.suites)
        return suites and any(plain(uri).rstrip("/") in message for uri in self.uris)


def plain(text: str) -> str:
    """Return a text without the users and passwords of its addresses."""
    return _PASSWORD.sub("//", text)


def sources(file: Path = SOURCES, folder: Path = SOURCES_FOLDER) -> Iterator[SourceEntry]:
    """Return the enabled sources."""
    for path in (file, *sorted(folder.glob("*"))):
        if path.is_file() and (path == file or _SOURCE_FILE.fullmatch(path.name)):
            text = path.read_text("utf-8", "replace")
            yield from (source_stanzas if path.suffix == ".sources" else source_lines)(path, text)


def source_lines(path: Path, text: str) -> Iterator[SourceEntry]:
    """Return the sources of a file with one line for each."""
    for number, content in enumerate(text.splitlines(), start=1):
        match = _LINE.match(content)
        if match:
            command = f"sed -i '{number}s/^/# /' {shlex.quote(str(path))}"
            yield SourceEntry(path, number, (match.group(1),), (match.group(2),), command)


def source_stanzas(path: Path, text: str) -> Iterator[SourceEntry]:
    """Return the sources of a file of deb822 stanzas."""
    fields: dict[str, tuple[int, list[str]]] = {}  # line and words by lower-case name
    words: list[str] = []
    for number, content in enumerate([*text.splitlines(), ""], start=1):
        field = _STANZA_FIELD.match(content)
        if field:
            words = field.group(2).split()
            fields[field.group(1).lower()] = (number, words)
        elif content.strip() and content[0] in " \t":
            words += content.split()
        elif not content.strip() and fields:
            enabled = fields.get("enabled", (0, ["yes"]))
            if "deb" in fields.get("types", (0, []))[1] and enabled[1] not in (["no"], ["false"], ["0"], ["off"]):
                first = min(line for line, _ in fields.values())
                edit = f"{enabled[0]}c" if enabled[0] else f"{first}i"
                uris, suites = (tuple(fields.get(name, (0, []))[1]) for name in ("uris", "suites"))
                command = f"sed -i '{edit} Enabled: no' {shlex.quote(str(path))}"
                yield SourceEntry(path, first, uris, suites, command)
            fields, words = {}, []


class NegativePin(NamedTuple):
    """A record of negative priority; `first` and `last` are its lines in the file, `line` that of the priority."""

    path: Path
    first: int
    line: int
    last: int
    packages: tuple[str, ...]
    priority: int

    def matches(self, name: str) -> bool:
        """Return whether the record may apply to this package; True for patterns that only apt can compare."""
        return any(
            pattern.startswith(("src:", "/")) or fnmatchcase(name, pattern.partition(":")[0])
            for pattern in self.packages
        )

    def comment_out(self) -> str:
        """Return the command that makes comments of the record."""
        return f"sed -i '{self.first},{self.last}s/^/#/' {shlex.quote(str(self.path))}"


def negative_pins(file: Path = PINS, folder: Path = PINS_FOLDER) -> Iterator[NegativePin]:
    """Return the records of negative priority."""
    for path in (file, *sorted(folder.glob("*"))):
        if path.is_file() and (path == file or _PIN_FILE.fullmatch(path.name)):
            yield from pins_of(path, path.read_text("utf-8", "replace"))


def pins_of(path: Path, text: str) -> Iterator[NegativePin]:
    """Return the records of negative priority in one file."""
    first, packages, line, priority = 0, "", 0, ""
    lines = [*text.splitlines(), ""]
    for number, content in enumerate(lines, start=1):
        field = _PIN_FIELD.match(content)
        if content.strip() and not content.startswith("#"):
            first = first or number
        if field:
            if field.group(1).lower() == "package":
                packages = field.group(2)
            else:
                line, priority = number, field.group(2).strip()
        elif not content.strip():
            if re.fullmatch(r"-\d+", priority):
                yield NegativePin(path, first, line, number - 1, tuple(packages.split()), int(priority))
            first, packages, line, priority = 0, "", 0, ""


def proxies(file: Path, folder: Path) -> Iterator[tuple[Path, int, str]]:
    """Return file, line and `host:port` of each proxy in apt's configuration."""
    for path in (file, *sorted(folder.glob("*"))):
        if path.is_file():
            for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), start=1):
                name, _, value = line.partition('"')
                is_proxy = "proxy" in name.lower() and not name.lstrip().startswith(("//", "#"))
                match = _PROXY.match(value.partition('"')[0]) if is_proxy else None
                if match:
                    yield path, number, ":".join(filter(None, match.groups()))


def drop_damaged(folder: Path = LISTS) -> list[str]:
    """Delete damaged lists, so that the next `apt-get update` fetches them, and return their names.

    apt writes its lists without a sync, and trusts them until its server reports new ones: after a power cut lists may
    be empty and have no packages, and `apt-get update` does not replace them for days.
    """
    files = list(damaged(folder))
    for path in files:
        path.unlink(missing_ok=True)
    return [path.name for path in files]


def damaged(folder: Path = LISTS) -> Iterator[Path]:
    """Yield lists whose SHA-256 differs from their InRelease or Release file, and incomplete files of these kinds.

    apt derives the names from addresses.
    """
    for path in sorted(folder.glob("*Release")):
        text = path.read_text("utf-8", "replace")
        if not _is_complete(path.name, text):
            yield path
            continue
        prefix = path.name.removesuffix("Release").removesuffix("In")
        for name, digest in _sums(text).items():
            file = path.with_name(prefix + name.replace("_", "%5f").replace("/", "_"))
            if file.is_file() and _sum(file) != digest:
                yield file


def _is_complete(name: str, text: str) -> bool:
    if not name.endswith("_InRelease"):
        return bool(text.strip())
    return text.startswith(_SIGNED[0]) and text.rstrip().endswith(_SIGNED[1])


def _sums(text: str) -> dict[str, str]:
    """File name -> SHA-256, of the `SHA256` field of a Release file."""
    sums: dict[str, str] = {}
    inside = False
    for line in text.splitlines():
        words = line.split()
        if not line.startswith(" "):
            inside = line.strip() == "SHA256:"
        elif inside and len(words) == 3:
            sums[words[2]] = words[0]
    return sums


def _sum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _pin_path(name: str) -> str:
    return f"{PINS_FOLDER}/{name}"


def _pin_text(pin: Pin) -> str:
    return f"Package: {' '.join(pin.packages)}\nPin: {pin.pin}\nPin-Priority: {pin.priority}\n"


def _pin_error(pin: Pin) -> str | None:
    """Return the error of a pin: apt silently ignores invalid names and pins."""
    name = pin.name
    if not _PIN_NAME.fullmatch(name):
        return f"{name!r} cannot be the name of a pin: letters, digits, _ and -"
    if not all(map(_PACKAGE.fullmatch, pin.packages)):
        return f"pin {name}: a package, or a pattern of packages, is one word"
    if not _PIN.fullmatch(pin.pin) or not pin.packages:
        return f"pin {name}: packages, and `version ...`, `release ...` or `origin ...`, not {pin.pin!r}"
    return None


def _source_path(name: str) -> str:
    return f"{SOURCES_FOLDER}/{name}.sources"


def _source_text(source: PackageSource) -> str:
    fields = {
        "Types": " deb",
        "URIs": _words(source.uris),
        "Suites": _words(source.suites),
        "Components": _words(source.components),
        "Architectures": _words(source.architectures),
        "Signed-By": _signed_by(source.signed_by.strip()),
    }
    return "".join(f"{field}:{value}\n" for field, value in fields.items() if value.strip())


def _words(words: Sequence[str]) -> str:
    return "".join(f" {word}" for word in words)


def _signed_by(key: str) -> str:
    """Return a key's lines, each after a blank, with a dot for an empty line."""
    return f" {key}" if key.startswith("/") else "".join(f"\n {line.rstrip() or '.'}" for line in key.splitlines())


def _source_error(source: PackageSource) -> str | None:
    """Return the error of a source: apt would ignore its name, or its key is invalid."""
    name, key = source.name, source.signed_by.strip()
    if not _SOURCE_NAME.fullmatch(name):
        return f"{name!r} cannot be the name of a package source: letters, digits, and _ . -"
    if not key.startswith(_KEY) and not _PATH.fullmatch(key):
        return f"package source {name}: signed_by is neither an absolute path nor a public key in ASCII armour"
    words = (*source.uris, *source.suites, *source.components, *source.architectures)
    if any(len(word.split()) != 1 for word in words):
        return f"package source {name}: an address, suite, component or architecture is one word each"
    return None


FORMS = {
    "sources": SettingsForm(_source_path, _source_text, _source_error),
    "pins": SettingsForm(_pin_path, _pin_text, _pin_error),
}
