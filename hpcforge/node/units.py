"""systemd units: enabled, running, and checked. `systemctl restart` may succeed without a running unit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from hpcforge.node import commands
from hpcforge.node.events import NodeError, readable

if TYPE_CHECKING:
    from hpcforge.node import answer_types

_ENABLED = ("enabled", "enabled-runtime", "static", "generated", "alias", "indirect", "transient")
_PROPERTIES = "LoadState,UnitFileState,ActiveState,SubState,Result,ConditionResult"
_JOB_S = 150  # longer than systemd's own start time-out (90 s), to get its message
_ACTIVE_S = 30
_QUERY_S = 20
_REFRESH_S = 60
# systemctl's messages when systemd closes the connection: it executes itself again after its own upgrade.
_CONNECTION_LOST = (
    "disconnected from message bus",
    "Connection reset by peer",
    "connection terminated",
    "not connected",
)
_TRIES = 10
_PAUSE_S = 0.5


class UnitStatus(NamedTuple):
    """A unit's state in systemd."""

    loaded: str  # loaded, not-found, masked, error
    enabled: bool
    active: str  # active, inactive, activating, failed, ...
    sub: str
    result: str
    condition: bool

    @property
    def runs(self) -> bool:
        """Return whether it is active; a oneshot counts if it remains active after its exit."""
        return self.active == "active"


def query(names: Sequence[str]) -> dict[str, UnitStatus]:
    """Return the states of units by their requested names (which may be aliases), in one call."""
    if not names:
        return {}
    outcome = _systemctl("show", f"--property={_PROPERTIES}", "--", *names, timeout_s=_QUERY_S)
    units = parse(outcome.whole("systemctl show"))
    if outcome.rc == 0 and len(units) == len(names):
        return dict(zip(names, units))
    if len(names) == 1:
        raise NodeError(f"systemctl show {names[0]}: {readable(outcome.stderr) or f'exit status {outcome.rc}'}")
    return {
        name: unit for unit_name in names for name, unit in query([unit_name]).items()
    }  # one bad name invalidates the whole answer


def _systemctl(*arguments: str, timeout_s: float = _JOB_S) -> commands.CommandResult:
    """Run systemctl, again if systemd closed the connection meanwhile: all verbs used here can be repeated."""
    for _ in range(_TRIES):
        outcome = commands.run(["systemctl", *arguments], timeout_s)
        if outcome.rc == 0 or not any(words in outcome.stderr for words in _CONNECTION_LOST):
            break
        time.sleep(_PAUSE_S)
    return outcome


def _succeed(*arguments: str) -> None:
    outcome = _systemctl(*arguments)
    if outcome.rc != 0:
        why_not = f"not finished after {_JOB_S} s" if outcome.timed_out else f"exit status {outcome.rc}"
        raise NodeError(f"`systemctl {' '.join(arguments)}`: {why_not}: {readable(outcome.stderr)}")


def parse(text: str) -> list[UnitStatus]:
    """Parse `systemctl show` output, in its order: blocks of KEY=VALUE, separated by an empty line."""
    blocks = (dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.split("\n\n"))
    return [
        UnitStatus(
            block.get("LoadState", ""),
            block.get("UnitFileState", "") in _ENABLED,
            block.get("ActiveState", ""),
            block.get("SubState", ""),
            block.get("Result", ""),
            block.get("ConditionResult", "") == "yes",
        )
        for block in blocks
        if block
    ]


def compare(names: Sequence[str], due: Sequence[str]) -> list[answer_types.UnitAnswer]:
    """Return the units that are not enabled, not running, or have a restart due."""
    states = query(names)
    return [
        {"name": name, "enabled": unit.enabled, "active": unit.active, "restart_pending": name in due}
        for name, unit in states.items()
        if not (unit.enabled and unit.runs) or name in due
    ]


def reload() -> None:
    """Let systemd read unit files and drop-ins again."""
    _succeed("daemon-reload")


def bring_up(name: str, actions: Sequence[str], refresh: Sequence[Sequence[str]] = ()) -> str | None:
    """Do the actions (enable, start, restart, refresh) and check that the unit runs; return the changes, or None.

    A refresh runs the commands of `refresh`, one after the other; a unit that does not run is started instead.
    `start` is requested for a unit that did not run when it was observed. If it runs now, it started meanwhile, perhaps
    before its files were complete (a package may start it, another unit may pull it in): then it is restarted.
    """
    unit, did = query([name])[name], []
    if "enable" in actions and not unit.enabled:
        _succeed("enable", "--quiet", "--", name)
        did.append("enabled")
    if "refresh" in actions and unit.runs:
        for command in refresh:
            _refresh(name, command)
        did.append("refreshed")
    elif {"start", "restart", "refresh"} & set(actions):
        verb = "restart" if unit.active != "inactive" else "start"
        if unit.active == "failed":
            commands.run(["systemctl", "reset-failed", "--", name], _QUERY_S)  # else systemd may refuse to try again
        outcome = _systemctl(verb, "--", name)
        if outcome.rc != 0:
            raise NodeError(f"`systemctl {verb} {name}`: {readable(outcome.stderr, 500)}\n{failure(name)}")
        did.append("restarted" if unit.runs else "started")
    _wait(name)
    return ", ".join(did) or None


def _refresh(name: str, command: Sequence[str]) -> None:
    """Run a refresh command. NodeError with the unit's log if it fails: `scontrol reconfigure` gives no reason.

    For a stopped unit the error has its state, too. A running unit may have logged the reason since the command began.
    """
    since_s = time.time()
    try:
        commands.succeed(command, _REFRESH_S)
    except NodeError as error:
        reason = _journal(name, f"--since=@{since_s:.3f}") if query([name])[name].runs else failure(name)
        raise NodeError(f"{error}\n{reason}".rstrip()) from error


def take_down(name: str, *, stop: bool, disable: bool) -> str | None:
    """Stop and disable a unit on request; return the changes, or None, also for a unit that systemd does not know."""
    unit, did = query([name])[name], []
    if stop and unit.active not in ("inactive", "failed"):
        _succeed("stop", "--", name)
        did.append("stopped")
    if disable and unit.enabled:
        _succeed("disable", "--quiet", "--", name)
        if not query([name])[name].enabled:  # static and generated units stay unchanged
            did.append("disabled")
    if stop and unit.active == "failed":
        commands.run(["systemctl", "reset-failed", "--", name], _QUERY_S)
    return ", ".join(did) or None


def failure(name: str) -> str:
    """Return the reason why a unit does not run, from systemd and its journal."""
    unit = query([name])[name]
    facts = [f"{name} is {unit.active} ({unit.sub})" + ("" if unit.result == "success" else f", result {unit.result}")]
    status = commands.run(["systemctl", "status", "--no-pager", "--full", "--lines=0", "--", name], _QUERY_S).stdout
    facts += [line.strip() for line in status.splitlines() if "was not met" in line or "start condition failed" in line]
    return readable("\n".join(facts) + "\n" + _journal(name, "-b"), 2000)


def _journal(name: str, since: str) -> str:
    """Return the last eight lines of a unit's journal."""
    commands.run(["journalctl", "--sync"], _QUERY_S)  # journald may not have written a unit's last lines yet
    command = ["journalctl", "-u", name, since, "-n", "8", "-o", "cat", "--no-pager", "-q"]
    return readable(commands.run(command, _QUERY_S).stdout, 2000)


def _wait(name: str) -> None:
    deadline = time.monotonic() + _ACTIVE_S
    pause = 0.05
    while True:
        unit = query([name])[name]
        if unit.runs:
            return
        if unit.active in ("inactive", "failed") or time.monotonic() > deadline:
            raise NodeError(failure(name))
        time.sleep(pause)
        pause = min(pause * 2, 1.0)
