"""Units of roles that the host replaces: with a file of a site's own build, a mask, another ExecStart.

systemd reads a unit's file from the first of its folders that has one, and adds the drop-ins of all: systemd.unit(5).
A copy of the package's unit that starts the same program is allowed, and so is a drop-in with limits.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcforge.node import package_manager
from hpcforge.node.inspection import Conflict, Inspection
from hpcforge.node.obstacles import aside

# Folders with precedence over a package's units, as far as people and other programs write there.
_FIRST = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
)
_PACKAGED = ("/usr/lib/systemd/system", "/lib/systemd/system")
_MARK = "# written by hpcforge\n"  # the same as in `hpcforge.node.unit_files`
_ACCOUNT = ("User", "Group", "DynamicUser", "RootDirectory", "RootImage")
_SIZE_LIMIT = 1 << 20
_RELOAD = "systemctl daemon-reload"


def search(inspection: Inspection, root: Path = Path("/")) -> Iterator[Conflict]:
    """Yield the files that replace units of roles, or change the program that they start."""
    own = inspection.own_paths()
    coded = {role["role"] for role in inspection.roles if role.get("opaque")}  # their code may write units
    for unit, role in inspection.units().items():
        names = _names(unit)
        for path in _files((*names, *_aliases(unit, root)), root):
            mask = _mask(path, root)
            if mask:
                reason = f"it is masked: {path} is {mask}"
                yield Conflict(role, "unit", unit, reason, (f"rm {shlex.quote(path)}", _RELOAD))
            elif Path(path).name in names and role not in coded and path not in own:
                yield from _in_place(role, unit, path, root)
        for path in _drop_ins(unit, root) if role not in coded else ():
            if path in own:
                continue
            starts, account = _starts(root, path), _settings(root, path, *_ACCOUNT)
            if starts:
                reason = f"{path} has it start {_program(starts)} in place of the package's program"
            elif account:
                reason = f"{path} has it run otherwise than the package's unit: {', '.join(account)}"
            if starts or account:
                yield Conflict(
                    role, "unit", unit, reason, (f"systemctl stop {shlex.quote(unit)}", aside(path), _RELOAD)
                )


def _names(unit: str) -> list[str]:
    """Return the names of a unit's files: its own, and its template's."""
    stem, _, kind = unit.rpartition(".")
    template = stem.partition("@")[0]
    return [unit, f"{template}@.{kind}"] if "@" in stem else [unit]


def _aliases(unit: str, root: Path) -> list[str]:
    """Return the aliases of the package's unit once it is enabled; none of them may be masked."""
    texts = [_read(root, f"{folder}/{unit}") or "" for folder in _PACKAGED]
    pairs = [line.partition("=") for line in texts[0].splitlines() or texts[1].splitlines()]
    return [name for key, _, value in pairs if key.strip() == "Alias" for name in value.split()]


def _files(names: Sequence[str], root: Path) -> Iterator[str]:
    for folder in _FIRST:
        for name in names:
            if os.path.lexists(_at(root, f"{folder}/{name}")):
                yield f"{folder}/{name}"


def _drop_ins(unit: str, root: Path) -> Iterator[str]:
    """Yield the paths of a unit's drop-ins, also of its template and of all units with the same prefix."""
    stem, _, kind = unit.rpartition(".")
    prefixes = [f"{stem[: at + 1]}.{kind}" for at, letter in enumerate(stem) if letter == "-"]
    for folder in _FIRST:
        for name in (*_names(unit), *prefixes):
            try:
                entries = sorted(entry.name for entry in os.scandir(_at(root, f"{folder}/{name}.d")))
            except OSError:
                continue
            yield from (f"{folder}/{name}.d/{entry}" for entry in entries if entry.endswith(".conf"))


def _leads_to(path: str, root: Path) -> str:
    place = _at(root, path)
    return os.path.normpath(Path(path).parent / place.readlink()) if place.is_symlink() else path


def _mask(path: str, root: Path) -> str:
    if _leads_to(path, root) == "/dev/null":
        return "a link to /dev/null"
    return "an empty file" if _read(root, _leads_to(path, root)) == "" else ""


def _in_place(role: str, unit: str, path: str, root: Path) -> Iterator[Conflict]:
    """Yield a unit's file that is neither an alias nor a package's, and starts another program than the package's."""
    target = _leads_to(path, root)
    if target.startswith(tuple(f"{folder}/" for folder in _PACKAGED)):
        return
    starts = _starts(root, target)
    packaged = next(filter(None, (_starts(root, f"{folder}/{Path(path).name}") for folder in _PACKAGED)), [])
    if (_read(root, target) or "").startswith(_MARK) or (starts and starts == packaged):
        return
    if package_manager.of_node().is_packaged(path, root):  # some packages put their units into the site's folder
        return
    # `systemctl disable` also removes a link to the unit's file: then there is nothing to move.
    away = f"rm -f {shlex.quote(path)}" if target != path else aside(path)
    which = f"leads to {target}, which" if target != path else "is not the package's: it"
    does = f"starts {_program(starts)}" if starts else "starts no program"
    commands = (f"systemctl disable --now {shlex.quote(unit)}", away, _RELOAD)
    yield Conflict(role, "unit", unit, f"{path} {which} {does}", commands)


def _starts(root: Path, path: str) -> list[str]:
    """Return the commands that a unit's file or drop-in starts; an empty setting only removes earlier ones."""
    return [setting.partition("=")[2] for setting in _settings(root, path, "ExecStart")]


def _settings(root: Path, path: str, *keys: str) -> list[str]:
    """Return the settings with these keys, less empty ones, as KEY=VALUE."""
    pairs = (line.partition("=") for line in (_read(root, path) or "").splitlines())
    return [f"{key.strip()}={value.strip()}" for key, _, value in pairs if key.strip() in keys and value.strip()]


def _program(starts: list[str]) -> str:
    return starts[-1].split()[0].lstrip("-+!:@|")


def _read(root: Path, path: str) -> str | None:
    try:
        with _at(root, path).open("rb") as file:
            return file.read(_SIZE_LIMIT).decode("utf-8", "replace")
    except OSError:
        return None


def _at(root: Path, path: str) -> Path:
    return root / path[1:]
