"""Timed commands: a systemd timer with its service, see `hpcforge.node.unit_files`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcforge.node import commands, unit_files
from hpcforge.node.events import EventReporter, Json, readable
from hpcforge.node.kinds import BLOCK, Known, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.timers import Timer

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_USER = re.compile(r"[a-z_][a-z0-9_-]*\$?")
_TIMEOUT_S = 20


def compare(timer: Timer) -> Json | None:
    """Return its state, if its units differ or the timer does not run."""
    texts = _texts(timer)
    if unit_files.is_there(texts, f"{timer.name}.timer"):
        return None
    return {"name": timer.name, "exists": unit_files.any_there(texts)}


def obstacle(timer: Timer, record: Known) -> str | None:  # noqa: ARG001
    """Return the reason for which systemd would refuse it, or a unit that is not hpcforge's."""
    name, command = timer.name, timer.command
    if not _NAME.fullmatch(name):
        return f"{name!r} cannot be the name of a timer: letters, digits, and _ . -"
    if not _USER.fullmatch(timer.user):
        return f"timer {name}: {timer.user!r} cannot be the name of a user"
    if not command or not command[0].startswith("/") or any("\n" in word for word in command):
        return f"timer {name}: its command is an absolute path and arguments, of one line each"
    outcome = commands.run(["systemd-analyze", "calendar", "--", timer.calendar], _TIMEOUT_S, merge=True)
    if outcome.rc != 0:
        return f"timer {name}: systemd rejects the time {timer.calendar!r}: {readable(outcome.stdout, 300)}"
    return unit_files.obstacle(_texts(timer))


def put(timer: Timer) -> str | None:
    """Write its units, and start the timer."""
    return unit_files.put(_texts(timer), f"{timer.name}.timer")


def own(name: str, change: Timer | None, made: set[str]) -> Json:  # noqa: ARG001
    """Return a record without an earlier state."""
    return {"before": None, "made": []}


def restore(name: str, record: Known, report: EventReporter) -> str | None:  # noqa: ARG001
    """Remove it; a running command continues to its end."""
    return unit_files.restore([f"{name}.timer", f"{name}.service"], f"{name}.timer")


def room(timer: Timer) -> list[SpaceNeed]:
    """Return the space for its units, and the link that enables one."""
    return [SpaceNeed(f"{unit_files.FOLDER}/{timer.name}.timer", 2 * BLOCK, 3)]


def _texts(timer: Timer) -> dict[str, str]:
    name = timer.name
    level = "LogLevelMax=notice\n" if timer.quiet else ""  # also for systemd's own messages about it
    service_unit = (
        f"[Unit]\nDescription={name}\n\n"
        f"[Service]\nType=oneshot\nUser={timer.user}\n{level}ExecStart={' '.join(map(_word, timer.command))}\n"
    )
    accuracy = "" if timer.accuracy_s == 60 else f"AccuracySec={timer.accuracy_s}\n"  # systemd's own is 60 s
    timer_unit = (
        f"[Unit]\nDescription={name}\n\n"
        f"[Timer]\nOnCalendar={timer.calendar}\nRandomizedDelaySec={timer.delay_s}\n{accuracy}Persistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    return {f"{name}.service": service_unit, f"{name}.timer": timer_unit}


def _word(word: str) -> str:
    """Quote a word for systemd, so that nothing in it is a specifier or a variable."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
