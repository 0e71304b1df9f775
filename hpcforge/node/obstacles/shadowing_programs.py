"""Programs and libraries with precedence over the packages': from a build in /usr/local, or a folder in PATH.

A link to the package's program does not count, nor does a script that names it: a site's wrapper starts it in the end.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcforge.node.inspection import Conflict, Inspection
from hpcforge.node.obstacles import aside

_PACKAGED = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")
_LIBRARIES = ("/lib", "/usr/lib")  # and the folders below them
_LOCAL = ("/usr/local/sbin", "/usr/local/bin")  # first in the PATH of Debian, sudo and hpcforge
_SETTINGS = ("/etc/environment", "/etc/login.defs", "/etc/profile", "/etc/bash.bashrc", "/etc/profile.d/*.sh")
_ASSIGNMENT = re.compile(r"(?:^|[\s;])([A-Za-z_]\w*)=([^\s;]*)", re.MULTILINE)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_READ_BYTES = 1 << 16


def search(inspection: Inspection, root: Path = Path("/")) -> Iterator[Conflict]:
    """Yield the programs and libraries of roles that the host has in an earlier folder, by role and folder."""
    own = inspection.own_paths()
    for kind, folders in (("program", _program_folders), ("library", _library_folders)):
        by_role = {
            role["role"]: [name for name in role.get("programs", ()) if (".so" in name) == (kind == "library")]
            for role in inspection.all_roles
        }
        sources: dict[str, str] = {}
        for folder, source in folders(root) if any(by_role.values()) else ():
            sources.setdefault(folder, source)
        for folder, source in sources.items():
            for role, names in by_role.items():
                others = [name for name in names if _is_other(root, folder, name, own)]
                if others:
                    yield _conflict(role, kind, root, folder, source, others)


def _conflict(role: str, kind: str, root: Path, folder: str, source: str, names: Sequence[str]) -> Conflict:
    if kind == "program":
        by = f" by PATH in {source}" if source else ""
        reason = f"{folder} has {'another' if len(names) == 1 else 'others'} before the package's{by}"
        return Conflict(role, kind, ", ".join(names), reason, (aside(*(f"{folder}/{name}" for name in names)),))
    # A library has several names, and ldconfig makes the names that programs load.
    paths = [_path(root, place) for name in names for place in _matches(root, f"{folder}/{name}*")]
    reason = f"{folder} has another, which programs load before the package's"
    return Conflict(role, kind, ", ".join(names), reason, (aside(*paths), "ldconfig"))


def _is_other(root: Path, folder: str, name: str, own: set[str]) -> bool:
    path = f"{folder}/{name}"
    place = root / path[1:]
    if path in own or not place.is_file():
        return False
    target = _path(root.resolve(), place.resolve())
    if target.startswith(tuple(f"{packaged}/" for packaged in (*_PACKAGED, *_LIBRARIES))):
        return False
    if ".so" in name:
        return True
    return os.access(place, os.X_OK) and not _starts_the_package_s(place, name)


def _starts_the_package_s(place: Path, name: str) -> bool:
    with place.open("rb") as file:
        head = file.read(_READ_BYTES)
    return head.startswith(b"#!") and any(f"{folder}/{name}".encode() in head for folder in _PACKAGED)


def _program_folders(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the folders before the packages' in a login's PATH, with the file that sets them ("": all hosts)."""
    yield from ((folder, "") for folder in _LOCAL)
    for pattern in _SETTINGS:
        for place in _matches(root, pattern):
            yield from ((folder, _path(root, place)) for folder in _before(_read(place)))


def _before(text: str) -> Iterator[str]:
    """Yield the folders that a text of assignments puts first in PATH."""
    values = {"PATH": _PACKAGED[0]}  # the earlier value has the packages' folders
    for name, words in _ASSIGNMENT.findall(text):
        value = _VARIABLE.sub(lambda match: values.get(match[1], ""), words.replace('"', "").replace("'", ""))
        if name == "PATH":
            yield from itertools.takewhile(lambda folder: folder not in _PACKAGED, map(_plain, value.split(":")))
        else:
            values[name] = value


def _plain(folder: str) -> str:
    return os.path.normpath(folder) if folder.startswith("/") else ""  # relative folders do not count


def _library_folders(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the folders that the dynamic linker searches before the packages', with an empty source: ldconfig(8)."""
    for line in _read(root / "etc/ld.so.conf").splitlines():
        pattern = line.partition("include ")[2].strip()
        places = _matches(root, str(Path("/etc", pattern))) if pattern else []
        for folder in [entry for place in places for entry in _read(place).split()] or line.split()[:1]:
            if folder.startswith(_LIBRARIES):
                return
            if folder.startswith("/"):
                yield os.path.normpath(folder), ""


def _matches(root: Path, pattern: str) -> list[Path]:
    return sorted(root.glob(pattern[1:]))


def _path(root: Path, place: Path) -> str:
    """Return the path that the host has for a place below `root`."""
    return f"/{place.relative_to(root)}" if root in place.parents else str(place)


def _read(path: Path) -> str:
    """Return the text of a settings file without comments; "" if it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
