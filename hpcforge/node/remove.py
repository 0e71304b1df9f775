"""Removal of hpcforge's resources, see `hpcforge.node`: it touches only resources of the receipt.

It can be interrupted at any point: the receipt forgets resources only at the end, and completed removals are detected.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from hpcforge.kinds import TABLE, ResourceKind
from hpcforge.node import (
    backups,
    disk_sync,
    guard,
    kept_on_removal,
    lock,
    ownership,
    package_manager,
    paths,
    receipt,
    trees,
    units,
)
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import UNKNOWN, handler
from hpcforge.node.receipt import Receipt
from hpcforge.node.verbs import of_kind, with_kinds

if TYPE_CHECKING:
    from hpcforge.node.requests import LessRequest, RemoveRequest

Act = Callable[[Json, str], Optional[str]]  # a role's part of the receipt, a name in it -> the change
_LISTS = (*ownership.KEYS, "packages")
_REHEARSALS = "labs"  # this machine's rehearsals: disks, keys, and mounted file systems
_OURS = (
    {
        "kind": "path",
        "names": [str(receipt.FOLDER / _REHEARSALS)],
        "why": "rehearsals on this machine; `hpcforge rehearse down` removes them",
    },
    {"kind": "path", "names": ["/run/hpcforge"], "why": "the last actions here, in memory until the next restart"},
)
_LEFT_BY_A_KILLED_RUN = re.compile(r"\.hpcforge-[0-9a-f]{16}")


def remove(request: RemoveRequest, report: EventReporter) -> None:
    """Remove the requested resources, or with `leave` all."""
    leave = bool(request.get("leave"))
    with lock.held(request, "converge, remove"):
        _refuse_blind(leave)
        remembered = guard.forget_reverted(receipt.begin(request, report), request["work"])
        receipt.save(remembered)
        package_manager.of_node().release()
        requested = _everything(remembered, request["work"]) if leave else request["work"]
        work = _in_order(requested, remembered, report)
        _arm(work, remembered, report)
        _remove_resources([role for role in work if not _is_only_forgotten(role)], remembered, report)
        succeeded = [role for role in work if role["role"] not in report.failures]
        remaining = ownership.forget(remembered, succeeded)
        made = _directories([role for role in succeeded if not _is_only_forgotten(role)], remembered, remaining, report)
        if remembered.roles:  # else an earlier request removed all, and the remaining items are not known any more
            stays = [*_remains(succeeded, remembered, remaining, made), *(_OURS if leave else ())]
            report.emit({"event": "remains", "stays": kept_on_removal.existing(stays, [], [])})
        if report.count:
            disk_sync.system()  # forgotten resources must be gone after a power cut, too
        receipt.save(remaining)
        remaining = _end_guarded(work, remaining, report)
        backups.tidy(remaining, guard.backup_digests(guard.armed()))
        if leave and not report.failures:
            _remove_traces(report)


def _is_only_forgotten(role: LessRequest) -> bool:
    """Return whether a removed role keeps all its resources, so that it is only forgotten."""
    return role.get("on_remove") == "keep" and not role.get("wanted")


def _remove_resources(work: Sequence[LessRequest], remembered: Receipt, report: EventReporter) -> None:
    def act_on(kind: str, key: str, act: Act) -> set[str]:
        return _act(work, kind, key, act, remembered, report)

    def put_back(kind: ResourceKind) -> set[str]:
        return act_on(
            kind.singular,
            kind.name,
            lambda entry, name: handler(kind.name).restore(name, entry[kind.name][name], report),
        )

    act_on("unit", "units", _stop_unit)
    moved: set[str] = set().union(*(put_back(kind) for kind in reversed(TABLE) if not kind.early))
    if any(role["units"] or of_kind(role, "files") for role in work):
        units.reload()
    act_on("unit", "units", partial(_restore_unit, moved))
    act_on("directory", "trees", _remove_tree)
    _purge(work, report)
    for kind in reversed(TABLE):
        if kind.early:
            put_back(kind)


def _arm(work: Sequence[LessRequest], remembered: Receipt, report: EventReporter) -> None:
    """Arm the guards of roles whose removal could lock hpcforge out."""
    for role in work:
        request, files = role.get("guard"), of_kind(role, "files")
        if request and files:
            owned = {path: remembered.roles[role["role"]]["files"][path] for path in files}
            try:
                guard.arm(role["role"], request, list(filter(_can_be_kept, files)), role["units"], owned)
            except Exception as error:
                report.failed(role["role"], "guard", request["id"], error)


def _can_be_kept(path: str) -> bool:
    """Return whether a backup of the present entry is possible; a user may have replaced it."""
    try:
        return backups.keep(path) is not None
    except (NodeError, OSError):
        return False


def _end_guarded(work: Sequence[LessRequest], remaining: Receipt, report: EventReporter) -> Receipt:
    """Revert removals of failed guarded roles at once; start the timers of the others."""
    for role in work:
        error, request = report.failures.get(role["role"]), role.get("guard")
        if request and error and any(armed_guard["guard"] == request["id"] for armed_guard in guard.armed()):
            remaining = guard.revert_now(request["id"], remaining, report, error)
    guard.extend([role for role in work if role["role"] not in report.failures])
    return remaining


def _act(
    work: Sequence[LessRequest], kind: str, key: str, act: Act, remembered: Receipt, report: EventReporter
) -> set[str]:
    """Act on one kind of resource of every role, the last first; return the roles with changes."""
    changed = set()
    for role in work:
        for name in reversed(of_kind(role, key)):
            if not report.goes_on(role):
                break
            try:
                detail = act({"role": role["role"], **remembered.roles[role["role"]]}, name)
            except Exception as error:
                report.failed(role["role"], kind, name, error)
                break
            if detail:
                changed.add(role["role"])
                report.changed(role["role"], kind, name, detail)
    return changed


def _refuse_blind(leave: bool) -> None:
    trouble = receipt.load().trouble
    if leave and trouble:
        raise NodeError(
            f"{trouble}, so hpcforge cannot name its resources on this node: add the node to the blueprint "
            "again, apply, then remove it; or reinstall it"
        )


def _everything(remembered: Receipt, requested: Sequence[LessRequest]) -> list[LessRequest]:
    listed = {role["role"]: set(role.get("packages", ())) for role in requested}
    removals: list[LessRequest] = []
    for role, entry in remembered.roles.items():
        purged = [name for name in entry["packages"] if entry["on_remove"] == "purge" or name in listed.get(role, ())]
        removal: LessRequest = {"role": role, "packages": purged, "on_remove": entry["on_remove"]}
        removals.append(with_kinds(removal, {kind: list(entry[kind]) for kind in ownership.KEYS}))
    return removals


def _in_order(requested: Sequence[LessRequest], remembered: Receipt, report: EventReporter) -> list[LessRequest]:
    """Return the roles, the newest first, each with hpcforge's resources only."""
    order = list(remembered.roles)
    for role in requested:
        entry = remembered.roles.get(role["role"], {})
        strange = [name for kind in _LISTS for name in of_kind(role, kind) if name not in entry.get(kind, ())]
        if strange:
            report.warning(f"{role['role']}: {', '.join(strange)}: not in this node's record: not touched")
    recorded = [role for role in requested if role["role"] in remembered.roles]
    return [
        with_kinds(role, {kind: _ours(role, kind, remembered) for kind in _LISTS})
        for role in sorted(recorded, key=lambda role: order.index(role["role"]), reverse=True)
    ]


def _ours(role: LessRequest, kind: str, remembered: Receipt) -> list[str]:
    return [name for name in of_kind(role, kind) if name in remembered.roles[role["role"]][kind]]


def _stop_unit(entry: Json, name: str) -> str | None:
    """Stop and disable a unit, unless it ran or was enabled before hpcforge."""
    before = entry["units"][name]
    return units.take_down(name, stop=not before["active"], disable=not before["enabled"])


def _restore_unit(moved: Collection[str], entry: Json, name: str) -> str | None:
    """Start the earlier service again, with its earlier configuration."""
    before, present = entry["units"][name], units.query([name])[name]
    actions = ["enable"] if before["enabled"] and not present.enabled else []
    if before["active"] and (entry["role"] in moved or not present.runs):
        actions.append("restart" if present.runs else "start")
    return units.bring_up(name, actions) if actions else None


def _remove_tree(entry: Json, path: str) -> str | None:
    """Remove the tree that a role's own code made; earlier content is not its own."""
    return trees.remove(path) if entry["trees"][path] else None


def _purge(work: Sequence[LessRequest], report: EventReporter) -> None:
    roles = [role for role in work if role["packages"] and report.goes_on(role)]
    names = list(dict.fromkeys(name for role in roles for name in role["packages"]))
    if not names:
        return
    try:
        purged = package_manager.of_node().purge(names, report)
    except Exception as error:
        for role in roles:
            report.failed(role["role"], "package", " ".join(role["packages"]), error)
        return
    for role in roles:
        for name in role["packages"]:
            if name in purged:
                report.changed(role["role"], "package", name, "purged")


def _remains(
    work: Sequence[LessRequest], remembered: Receipt, remaining: Receipt, directories: Sequence[str]
) -> list[Json]:
    """Return the remains of these roles, and why they stay."""
    owned = {
        name
        for entry in remaining.roles.values()
        if any(entry[kind] for kind in ownership.KEYS)
        for name in entry["packages"]
    }
    stays: list[Json] = []
    files: list[str] = []
    for role in work:
        entry = remembered.roles[role["role"]]
        removals = {kind: of_kind(role, kind) for kind in ownership.KEYS}
        removals["packages"] = [name for name in entry["packages"] if name not in owned]
        coded = role["role"] in remembered.opaque
        stays += kept_on_removal.expected(role["role"], entry, removals, not role.get("wanted"), coded)
        if not _is_only_forgotten(role):
            files += [path for path in of_kind(role, "files") if entry["files"][path]["before"] in (None, UNKNOWN)]
    return kept_on_removal.existing(stays, files, directories)


def _directories(
    work: Sequence[LessRequest], remembered: Receipt, remaining: Receipt, report: EventReporter
) -> list[str]:
    """Remove empty directories that only these roles own, the deepest first. Return all of them, removed or not."""
    owned = {path for entry in remaining.roles.values() for path in (*entry["directories"], *ownership.made_for(entry))}
    owner = {}
    for role in work:
        entry = remembered.roles[role["role"]]
        parts = {kind: {name: entry[kind][name] for name in of_kind(role, kind)} for kind in ownership.KEYS}
        owner.update({path: role["role"] for path in ownership.made_for(parts) if path not in owned})
    for path in sorted(owner, key=lambda path: path.count("/"), reverse=True):
        try:
            removed = _remove_empty(path)
        except OSError as error:
            report.progress(owner[path], f"{path} could not be removed: {error.strerror}")
            continue
        if removed:
            report.changed(owner[path], "directory", path, "removed")
    return list(owner)


def _remove_empty(path: str) -> bool:
    parent, name = paths.split(path)
    try:
        folder = paths.open_directory(parent)
    except (FileNotFoundError, NotADirectoryError, paths.UnsafeError):
        return False
    try:
        _tidy(folder, name)
        os.rmdir(name, dir_fd=folder)
        return True
    except FileNotFoundError:
        return False
    finally:
        os.close(folder)


def _tidy(folder: int, name: str) -> None:
    """Delete leftovers of killed runs in a directory."""
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        for entry in filter(_LEFT_BY_A_KILLED_RUN.fullmatch, os.listdir(fd)):  # noqa: PTH208 - a descriptor
            os.unlink(entry, dir_fd=fd)
    finally:
        os.close(fd)


def _remove_traces(report: EventReporter) -> None:
    """Remove hpcforge's last traces: the armed guards, and its own folder."""
    guard.disarm_all()
    if clear(receipt.FOLDER):
        report.progress(None, f"{receipt.FOLDER} is gone")
    else:
        report.progress(None, f"only the rehearsals in {receipt.FOLDER} stay")


def clear(folder: Path) -> bool:
    """Delete hpcforge's folder except rehearsals in it; return whether the folder is gone."""
    rehearsals = 0
    for path in folder.iterdir():  # this process holds its lock until the end; a waiting one makes a new lock
        if path.name == _REHEARSALS:
            rehearsals += 1
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    if not rehearsals:
        folder.rmdir()
    return not rehearsals
