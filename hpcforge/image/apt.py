"""apt with its own lists and state: chooses the exact packages of an image, and fetches them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

from hpcforge.host.commands import run
from hpcforge.image.errors import ImageError
from hpcforge.image.long_commands import ensure_room, watched
from hpcforge.image.manifest import Package

_INSTALLED = re.compile(r"^Inst (\S+) (?:\[\S*\] )?\((\S+) .*\[(\S+)\]\)", re.MULTILINE)
_DATE = re.compile(r"^Date: (.*)$", re.MULTILINE)

_LISTS_MIB = 64  # with apt's caches; 19 MiB for Debian 12 main


@dataclass(frozen=True)
class Apt:
    """apt for one release, with its data in `home`, independent of the host's own apt."""

    home: Path
    options: tuple[str, ...]  # the host's own, which its archives need

    @property
    def archives(self) -> Path:
        """The folder of fetched packages."""
        return self.home / "archives"

    def update(self, sources: Iterable[str]) -> None:
        """Read the package lists of these sources."""
        self.home.mkdir(parents=True, exist_ok=True)
        ensure_room(self.home, _LISTS_MIB, "package lists take")
        for folder in (self.home / "lists" / "partial", self.archives / "partial"):
            folder.mkdir(parents=True, exist_ok=True)
        (self.home / "status").write_text("")  # nothing is installed
        (self.home / "sources.list").write_text("".join(f"{line}\n" for line in sources))
        self.unpin()
        argv = ["apt-get", *self._options(), "-qq", "-oAPT::Update::Error-Mode=any", "update"]
        watched(argv, self.home, lambda: None, with_us=True)

    @property
    def epoch_s(self) -> int:
        """The date of the newest package list (seconds since 1970, UTC)."""
        texts = [path.read_text(errors="replace") for path in sorted((self.home / "lists").glob("*Release"))]
        dates = [parsedate_to_datetime(match[1]) for text in texts if (match := _DATE.search(text))]
        if not dates:
            raise ImageError("the package lists have no date")
        return int(max(date.timestamp() for date in dates))

    def offered(self, names: Sequence[str]) -> frozenset[tuple[str, str]]:
        """Return the packages in the lists, each with its versions."""
        lines = run("apt-cache", *self._options(), "madison", "--", *names).splitlines() if names else []
        words = ([word.strip() for word in line.split("|")] for line in lines)
        return frozenset((columns[0], columns[1]) for columns in words if len(columns) > 1)

    def pin(self, text: str) -> None:
        """Restrict the choice to these preferences."""
        (self.home / "preferences").write_text(text)

    def unpin(self) -> None:
        """Let apt choose versions by default."""
        self.pin("")

    def choose(self, names: Sequence[str]) -> tuple[Package, ...]:
        """Return all packages of an installation of these on an empty system, in order of names."""
        output = run("apt-get", *self._options(), "-s", "-q", "install", "--", *names)
        chosen = sorted(_INSTALLED.findall(output))
        text = run("apt-cache", *self._options(), "show", "--", *(f"{name}={version}" for name, version, _ in chosen))
        stanzas = [dict(re.findall(r"^([\w-]+): (.*)$", stanza, re.MULTILINE)) for stanza in text.split("\n\n")]
        by_file = {(stanza["Package"], stanza["Version"]): stanza for stanza in stanzas if "Package" in stanza}
        return tuple(
            _package(name, version, architecture, by_file[name.partition(":")[0], version])
            for name, version, architecture in chosen
        )

    def fetch(self, packages: Sequence[Package], tick: Callable[[int], None]) -> None:
        """Fetch the files of these packages, and remove others; `tick` gets the number of present files."""
        files = {file_of(package) for package in packages}
        for path in self.archives.glob("*.deb"):
            if path.name not in files:
                path.unlink()
        exact = [f"{package.name}={package.version}" for package in packages]
        argv = ["apt-get", *self._options(), "-q", "--yes", "--download-only", "install", "--", *exact]
        watched(argv, self.home, lambda: tick(sum((self.archives / name).exists() for name in files)))

    def _options(self) -> tuple[str, ...]:
        own = {
            "Dir::Etc::SourceList": self.home / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": self.home / "preferences",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "Dir::State::Lists": self.home / "lists",
            "Dir::State::Status": self.home / "status",
            "Dir::State::extended_states": self.home / "extended_states",
            "Dir::Cache": self.home,
            "Dir::Cache::Archives": self.archives,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root",  # the folders are root's
            "Acquire::Languages": "none",
        }
        return (*self.options, *(f"-o{key}={value}" for key, value in own.items()))


def preferences(packages: Iterable[Package]) -> str:
    """Return apt preferences that only allow these versions."""
    exact = [f"Package: {package.name}\nPin: version {package.version}\nPin-Priority: 1001\n" for package in packages]
    return "\n".join(["Package: *\nPin: release *\nPin-Priority: -1\n", *exact])


def file_of(package: Package) -> str:
    """Return the name that apt gives a fetched package."""
    return f"{package.name}_{package.version.replace(':', '%3a')}_{package.architecture}.deb"


def _package(name: str, version: str, architecture: str, stanza: dict[str, str]) -> Package:
    return Package(name, version, architecture, stanza["SHA256"], int(stanza["Size"]), int(stanza["Installed-Size"]))
