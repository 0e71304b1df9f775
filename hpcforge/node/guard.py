"""Guarded changes, which could lock hpcforge out: they are reverted unless a new connection confirms them in time.

Before the first change of a guarded role hpcforge backs up the present state and arms a systemd timer. The timer runs a
copy of this program under /var/lib/hpcforge/guards, which restores the state. Timer and service are enabled units in
/etc/systemd/system, not transient ones, so that a node that restarts in between still reverts: the timer then counts
from the start of the node. They delete themselves after a revert, and *confirm* deletes them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import backups, commands, disk_sync, files, lock, ownership, paths, receipt, units
from hpcforge.node.events import EventReporter, Json, NodeError, explain
from hpcforge.node.receipt import Receipt

if TYPE_CHECKING:
    from hpcforge.node import answer_types
    from hpcforge.node.requests import ConfirmRequest, GuardRequest, RevertRequest, RoleRequest, TodoRequest

FOLDER = receipt.FOLDER / "guards"
UNITS = Path("/etc/systemd/system")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}")
_SYSTEMCTL_S = 60
_CONFIRM_S = 60.0  # wait for work on the node before a guard is confirmed
_PATIENCE_S = 900.0  # wait for work on the node before a change is reverted in the midst of it

_PROGRAM = """\
import json
document = json.loads({document!r})
scope = {{"__name__": "hpcforge.node.start"}}
exec(document["modules"]["hpcforge.node.start"], scope)
scope["start"](document)
"""
_SERVICE = """\
[Unit]
Description=hpcforge reverts an unconfirmed change ({guard})

[Service]
Type=oneshot
ExecStart={python} -IS {program}
"""
_TIMER = """\
[Unit]
Description=hpcforge reverts a change unless it is confirmed ({guard})

[Timer]
OnActiveSec={revert_s}
AccuracySec=100ms

[Install]
WantedBy=timers.target
"""


def arm(
    role: str, request: GuardRequest, paths: Sequence[str] = (), names: Sequence[str] = (), owned: Json | None = None
) -> None:
    """Back up a role's files (`paths`) or units (`names`) before they change, and start or restart its timer.

    `owned`: the receipt's entries of files that it is about to forget, by path; a revert restores them.
    """
    guard, revert_s = _checked(request["id"]), float(request["revert_s"])
    older = [armed_guard for armed_guard in armed() if armed_guard["guard"] != guard and role in armed_guard["roles"]]
    state = _load(guard) or {"guard": guard, "roles": [], "files": {}, "units": {}}
    state["roles"] = sorted({*state["roles"], role})
    for path in paths:
        if path not in state["files"]:
            try:
                state["files"][path] = backups.keep(path)
            except backups.TooLargeError:
                raise
            except NodeError:
                continue  # an entry that is not a file is not replaced: `put` will fail with the reason
    state["owned"] = {**state.get("owned", {}), **({role: owned} if owned else {})}
    fresh = units.query([name for name in names if name not in state["units"]])
    state["units"].update({name: {"enabled": unit.enabled, "active": unit.runs} for name, unit in fresh.items()})
    for armed_guard in older:  # it was never confirmed, so the state before it is the known good one
        state["files"].update(armed_guard["files"])
        state["units"].update(armed_guard["units"])
        state["owned"].update(armed_guard.get("owned", {}))
        revert_s = max(revert_s, armed_guard["revert_s"])
    _start({**state, "revert_s": revert_s})
    for armed_guard in older:
        _disarm(armed_guard["guard"])


def extend(work: Sequence[TodoRequest]) -> None:
    """Restart the revert timers; the timeout counts from the last request."""
    for guard in {role["guard"]["id"] for role in work if role.get("guard")}:
        state = _load(_checked(guard))
        if state:
            _start(state)


def armed() -> list[Json]:
    """Return all unconfirmed guards."""
    return [state for state in map(_load, _ids()) if state]


def told() -> list[answer_types.Armed]:
    """Return the armed guards in the form of observe's answer."""
    return [
        {
            "guard": armed_guard["guard"],
            "roles": armed_guard["roles"],
            # after a restart its timer has started again
            "left_s": round(
                max(0.0, _left_s(armed_guard)) if armed_guard["boot_id"] == _boot_id() else armed_guard["revert_s"], 1
            ),
        }
        for armed_guard in armed()
    ]


def backup_digests(states: Sequence[Json]) -> Iterator[str]:
    """Yield the digests of backups that these guards may have to restore."""
    for state in states:
        yield from (before["kept"] for before in state["files"].values() if before and "kept" in before)


def revert_now(guard: str, remembered: Receipt, report: EventReporter, reason: str) -> Receipt:
    """Revert a guarded change, and return the receipt with the revert. Reports errors and never raises them."""
    state = _load(_checked(guard))
    if state is None:
        return remembered
    new = [name for name, before in state["units"].items() if not before["active"]]
    old = [name for name, before in state["units"].items() if before["active"]]
    errors = _restore_units(state, new, report)  # first: stopping them may need the files
    errors += [*_restore_files(state, report), *_restore_units(state, old, report)]
    entries = [
        {"guard": guard, "role": role, "since_s": time.time(), "why": reason, "errors": errors}
        for role in state["roles"]
    ]
    others = [reversal for reversal in remembered.reverted if reversal["role"] not in state["roles"]]
    remembered = ownership.restore(ownership.regained(remembered, state.get("owned", {})), state["files"])
    remembered = remembered._replace(reverted=(*others, *entries), restarts=remembered.restarts - set(state["units"]))
    if not remembered.newer:
        receipt.save(remembered)
    _disarm(guard)
    return remembered


def forget_reverted(remembered: Receipt, work: Sequence[RoleRequest]) -> Receipt:
    """Return the receipt without reverts of roles that run again now."""
    roles = {role["role"] for role in work}
    return remembered._replace(
        reverted=tuple(reversal for reversal in remembered.reverted if reversal["role"] not in roles)
    )


def refused(remembered: Receipt, role: TodoRequest) -> str | None:
    """Return the reason why a role must not be finished: its guarded files were reverted meanwhile."""
    guard = role.get("guard")
    for reversal in remembered.reverted:
        if reversal["role"] == role["role"] and guard and reversal["guard"] == guard["id"]:
            return f"its change was reverted ({reversal['why']}); apply again"
    return None


def confirm(request: ConfirmRequest, report: EventReporter) -> None:
    """Confirm a change: hpcforge could log in after it, so it stays. Raise NodeError if it was reverted."""
    guard = _checked(request["guard"])
    with lock.held(request, "confirm", wait_s=_CONFIRM_S):
        for reversal in receipt.load().reverted:
            if reversal["guard"] == guard:
                raise NodeError(f"{reversal['role']}: the change was reverted ({reversal['why']}); apply again")
        if _load(guard) is None:
            report.progress(None, f"guard {guard} has no unconfirmed change")
            return
        _disarm(guard)


def revert(request: RevertRequest, report: EventReporter) -> None:
    """Revert a change if it is due, as the timer requests."""
    guard = _checked(request["guard"])
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(NodeError):  # a run has been active for long: being locked out is worse
            stack.enter_context(lock.held(request, "taking back a change", wait_s=_PATIENCE_S))
        state = _load(guard)
        if state is None or _left_s(state) > 1:  # confirmed, or restarted, meanwhile
            return
        try:
            remembered = receipt.load_for_change()._replace(trouble=None)
        except NodeError:
            remembered = receipt.load()  # a newer hpcforge's: it is not written, and the change is reverted
        revert_now(guard, remembered, report, f"it was not confirmed within {state['revert_s']:g} s")


def disarm_all() -> None:
    """Delete every guard of this node."""
    for guard in _ids():
        _disarm(guard)


def _checked(guard: str) -> str:
    if not _ID.fullmatch(guard):
        raise NodeError(f"{guard!r} is not the id of a guard")
    return guard


def _ids() -> list[str]:
    try:
        return sorted(path.stem for path in FOLDER.glob("*.json"))
    except OSError:
        return []


def _load(guard: str) -> Json | None:
    try:
        state: Json = json.loads((FOLDER / f"{guard}.json").read_bytes())
    except (OSError, ValueError):
        return None
    return state


def _start(state: Json) -> None:
    """Write a guard, and start or restart its timer."""
    guard, name = state["guard"], f"hpcforge-guard-{state['guard']}"
    until_s = time.clock_gettime(time.CLOCK_BOOTTIME) + state["revert_s"]
    program = FOLDER / f"{guard}.py"
    timer = _TIMER.format(guard=guard, revert_s=state["revert_s"])
    fresh = files.read_text(str(UNITS / f"{name}.timer")) != timer
    if fresh:
        document = json.dumps({"modules": _modules(), "request": {"verb": "revert", "guard": guard}})
        _write(program, _PROGRAM.format(document=document), 0o600)
        _write(UNITS / f"{name}.service", _SERVICE.format(guard=guard, python=sys.executable, program=program), 0o644)
    _write(FOLDER / f"{guard}.json", json.dumps({**state, "until_s": until_s, "boot_id": _boot_id()}), 0o600)
    if fresh:
        _write(UNITS / f"{name}.timer", timer, 0o644)
        commands.succeed(["systemctl", "daemon-reload"], _SYSTEMCTL_S)
        commands.succeed(["systemctl", "enable", "--quiet", f"{name}.timer"], _SYSTEMCTL_S)
        disk_sync.system()  # else a node that loses its power after the change would not revert it
    commands.succeed(["systemctl", "restart", f"{name}.timer"], _SYSTEMCTL_S)


def _disarm(guard: str) -> None:
    """Delete a guard; first its state: without it the service does nothing."""
    name = f"hpcforge-guard-{guard}"
    for path in (FOLDER / f"{guard}.json", FOLDER / f"{guard}.py"):
        path.unlink(missing_ok=True)
    _sync_folder()  # else a power cut would revert the confirmed change
    commands.run(["systemctl", "disable", "--quiet", "--now", f"{name}.timer"], _SYSTEMCTL_S)
    for kind in ("timer", "service"):
        (UNITS / f"{name}.{kind}").unlink(missing_ok=True)
    commands.run(["systemctl", "daemon-reload"], _SYSTEMCTL_S)


def _restore_files(state: Json, report: EventReporter) -> list[str]:
    errors = []
    for path, before in state["files"].items():
        try:
            detail = backups.restore(path, before)
        except Exception as error:
            errors.append(f"{path}: {explain(error)}")
            continue
        if detail:
            report.changed(state["roles"][0], "file", path, f"{detail}, as it was before the change")
    try:
        units.reload()
    except NodeError as error:
        errors.append(explain(error))
    return errors


def _restore_units(state: Json, names: Sequence[str], report: EventReporter) -> list[str]:
    errors = []
    for name in names:
        before = state["units"][name]
        try:
            units.take_down(name, stop=not before["active"], disable=not before["enabled"])
            if before["active"]:
                units.bring_up(name, ["restart"])
            report.changed(state["roles"][0], "unit", name, "restarted" if before["active"] else "stopped")
        except Exception as error:
            errors.append(f"{name}: {explain(error)}")
    return errors


def _left_s(state: Json) -> float:
    if state["boot_id"] != _boot_id():
        return 0.0
    return float(state["until_s"]) - time.clock_gettime(time.CLOCK_BOOTTIME)


def _modules() -> Json:
    """Return the received sources of this program."""
    for finder in sys.meta_path:
        sources = getattr(finder, "sources", None)
        if sources:
            return dict(sources)
    raise NodeError("the node program's sources are not available, so changes cannot be guarded")


def _write(path: Path, text: str, mode: int) -> None:
    folder = paths.open_private(path.parent) if path.parent == FOLDER else paths.open_directory(str(path.parent))
    try:
        files.replace(folder, path.name, text.encode(), files.Rights(os.geteuid(), os.getegid(), mode))
    finally:
        os.close(folder)


def _sync_folder() -> None:
    folder = paths.open_private(FOLDER)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
