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


def compare(wanted: Timer) -> Json | None:
    """Whether its units are as wanted, and the timer runs."""
    texts = _texts(wanted)
    if unit_files.is_there(texts, f"{wanted.name}.timer"):
        return None
    return {"name": wanted.name, "exists": unit_files.any_there(texts)}


def obstacle(wanted: Timer, known: Known) -> str | None:  # noqa: ARG001
    """Return the reason for which systemd would refuse it, or a unit that is not hpcforge's."""
    name, command = wanted.name, wanted.command
    if not _NAME.fullmatch(name):
        return f"{name!r} cannot be the name of a timer: letters, digits, and _ . -"
    if not _USER.fullmatch(wanted.user):
        return f"timer {name}: {wanted.user!r} cannot be the name of a user"
    if not command or not command[0].startswith("/") or any("\n" in word for word in command):
        return f"timer {name}: its command is an absolute path and arguments, of one line each"
    said = commands.run(["systemd-analyze", "calendar", "--", wanted.calendar], _TIMEOUT_S, merge=True)
    if said.rc != 0:
        return f"timer {name}: systemd rejects the time {wanted.calendar!r}: {readable(said.stdout, 300)}"
    return unit_files.obstacle(_texts(wanted))


def put(wanted: Timer) -> str | None:
    """Write its units, and let the timer run."""
    return unit_files.put(_texts(wanted), f"{wanted.name}.timer")


def own(name: str, change: Timer | None, made: set[str]) -> Json:  # noqa: ARG001
    """Nobody's before us."""
    return {"before": None, "made": []}


def restore(name: str, known: Known, report: EventReporter) -> str | None:  # noqa: ARG001
    """Without it; what it has begun goes on to its end."""
    return unit_files.restore([f"{name}.timer", f"{name}.service"], f"{name}.timer")


def room(wanted: Timer) -> list[SpaceNeed]:
    """Its units, and the link that enables one."""
    return [SpaceNeed(f"{unit_files.FOLDER}/{wanted.name}.timer", 2 * BLOCK, 3)]


def _texts(wanted: Timer) -> dict[str, str]:
    name = wanted.name
    level = "LogLevelMax=notice\n" if wanted.quiet else ""  # that of systemd about it, too
    service = (
        f"[Unit]\nDescription={name}\n\n"
        f"[Service]\nType=oneshot\nUser={wanted.user}\n{level}ExecStart={' '.join(map(_word, wanted.command))}\n"
    )
    accuracy = "" if wanted.accuracy_s == 60 else f"AccuracySec={wanted.accuracy_s}\n"  # systemd's own is 60 s
    timer = (
        f"[Unit]\nDescription={name}\n\n"
        f"[Timer]\nOnCalendar={wanted.calendar}\nRandomizedDelaySec={wanted.delay_s}\n{accuracy}Persistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    return {f"{name}.service": service, f"{name}.timer": timer}


def _word(word: str) -> str:
    """As systemd reads it back: nothing in it is a specifier or a variable."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
