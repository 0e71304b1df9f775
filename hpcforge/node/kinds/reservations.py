"""Reservations of Slurm's controller: scontrol reads and changes them on its node.

The receipt has `{"before": whether it existed before hpcforge}`: an earlier one stays. Slurm deletes a reservation once
it is over, and rejects a start in the past. So hpcforge compares each with the node's clock: an ended one is not made,
a started one keeps its start, and one that is made too late starts now and ends as planned.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from hpcforge.node import commands, files, units
from hpcforge.node.events import EventReporter, Json, NodeError, readable
from hpcforge.node.kinds import KeptItem, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.reservations import Reservation

_CONFIG = "/etc/slurm/slurm.conf"
_CONTROLLER = "slurmctld.service"
_TIMEOUT_S = 30
_ANSWERS_S = 60  # slurmctld may still be reading its state
_SILENT = "Slurm's controller does not answer"
_BEFORE = "it existed before hpcforge"
_FLAGS = ("maint", "ignore_jobs")  # Slurm sets some other flags itself, and some cannot be removed
_TIME = "%Y-%m-%dT%H:%M:%S"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NODES = re.compile(r"[A-Za-z0-9][A-Za-z0-9,\[\]-]{0,65535}")
_WORDS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,-]{0,4095}")

Settings = Mapping[str, str]


def compare(reservation: Reservation) -> Json | None:
    """Return the differences in Slurm."""
    state: Json = {"name": reservation.name, "exists": False, "found": None, "wanted": None, "unknown": None}
    if _is_over(reservation):
        return None
    if not _set_up():
        return state
    try:
        present = _reservations().get(reservation.name)
        changes = None if present is None else _changes(reservation, present)
    except NodeError:
        return {**state, "unknown": _SILENT}
    if changes is None:
        return state
    if not changes:
        return None
    return {**state, "exists": True, "found": _words(changes, 0), "wanted": _words(changes, 1)}


def obstacle(reservation: Reservation, record: Json | None) -> str | None:  # noqa: ARG001
    """Return the reason for which scontrol would refuse or misread it."""
    if not _NAME.fullmatch(reservation.name):
        return f"{reservation.name!r} is not a valid reservation name"
    if not _NODES.fullmatch(reservation.nodes):
        return f"reservation {reservation.name}: {reservation.nodes!r} is not a hostlist"
    try:
        time.strptime(reservation.start, _TIME)
    except ValueError:
        return f"reservation {reservation.name}: {reservation.start!r} is not a time such as 2027-03-01T08:00:00"
    if reservation.minutes < 1:
        return f"reservation {reservation.name} lasts {reservation.minutes} minutes"
    if not (reservation.users or reservation.accounts):
        return f"reservation {reservation.name} needs users or accounts"
    for words in filter(None, (reservation.users, reservation.accounts)):
        if not _WORDS.fullmatch(words):
            return f"reservation {reservation.name}: {words!r} are not names"
    strange = [flag for flag in _list(reservation.flags) if flag not in _FLAGS]
    return f"reservation {reservation.name}: unknown flag {strange[0]!r}; use {', '.join(_FLAGS)}" if strange else None


def put(reservation: Reservation) -> str | None:
    """Create it, or change what differs; return None if it is as desired or over."""
    if _is_over(reservation):
        return None
    present, selector = _awaited().get(reservation.name), f"ReservationName={reservation.name}"
    if present is None:
        begins_s, ends_s = _span(reservation)
        start = "now" if begins_s <= time.time() else reservation.start
        options = {"Users": reservation.users, "Accounts": reservation.accounts, "Flags": reservation.flags}
        rest = [f"{key}={value}" for key, value in options.items() if value]
        _scontrol("create", "reservation", selector, f"StartTime={start}", f"EndTime={_clock(ends_s)}",
                  f"Nodes={reservation.nodes}", *rest)  # fmt: skip
        return "reserved"
    changes = _changes(reservation, present)
    if not changes:
        return None
    for words in _updates(changes):
        _scontrol("update", selector, *words)
    return _words(changes, 1)


def own(name: str, change: Reservation | None, made: set[str]) -> Json:  # noqa: ARG001
    """Return whether it existed before hpcforge; False for one that is over."""
    return {"before": name in _awaited() if change and not _is_over(change) else is_there(name)}


def restore(name: str, record: Json, report: EventReporter) -> str | None:
    """Delete it. Without Slurm's controller on this node there is nothing to delete."""
    if not _set_up() or not units.query([_CONTROLLER])[_CONTROLLER].enabled:
        return None
    if name not in _reservations():
        return None
    if record["before"]:
        report.warning(f"reservation {name}: {_BEFORE}, so it stays")
        return None
    try:
        _scontrol("delete", f"ReservationName={name}")
    finally:
        _reservations.cache_clear()
    return "removed"


def is_there(name: str) -> bool:
    """Return whether it exists; False if the controller does not answer."""
    try:
        return _set_up() and name in _reservations()
    except NodeError:
        return False


def stays(name: str, record: Json) -> KeptItem | None:
    """Return the earlier reservation."""
    return ("reservation", name, _BEFORE) if record["before"] else None


def room(reservation: Reservation) -> list[SpaceNeed]:  # noqa: ARG001
    """Return the space for a line of Slurm's state."""
    return []


def _set_up() -> bool:
    """Return whether this node has a slurm.conf."""
    return files.read_text(_CONFIG) is not None


def _awaited() -> Mapping[str, Settings]:
    """Return the present reservations, once the controller answers."""
    until = time.monotonic() + _ANSWERS_S
    while True:
        try:
            return _reservations()
        except NodeError:
            if time.monotonic() > until:
                raise
        time.sleep(0.5)


@lru_cache(maxsize=None)
def _reservations() -> Mapping[str, Settings]:
    """Return all reservations by name, each as scontrol's words by key."""
    lines = _scontrol("--oneliner", "show", "reservation").splitlines()  # a sentence, if there are none
    rows = [dict(word.partition("=")[::2] for word in line.split()) for line in lines]
    return {row["ReservationName"]: row for row in rows if "ReservationName" in row}


def _changes(reservation: Reservation, present: Settings) -> dict[str, tuple[str, str]]:
    """Return the differences, by scontrol's word: the present and the desired value."""
    begins_s, ends_s = _span(reservation)
    changes = {}
    began_s, now_s = _seconds(present.get("StartTime", "")), time.time()
    if began_s != begins_s and max(began_s, begins_s) > now_s:
        changes["StartTime"] = present.get("StartTime", ""), "now" if begins_s <= now_s else reservation.start
    if _seconds(present.get("EndTime", "")) != ends_s or changes:
        changes["EndTime"] = present.get("EndTime", ""), _clock(ends_s)
    if _names(present.get("Nodes", "")) != _names(reservation.nodes):
        changes["Nodes"] = present.get("Nodes", ""), reservation.nodes
    for key, names in (("Users", reservation.users), ("Accounts", reservation.accounts)):
        if set(_list(present.get(key, ""))) != set(_list(names)):
            changes[key] = ",".join(_list(present.get(key, ""))), names
    flags = [flag for flag in _FLAGS if flag in _list(present.get("Flags", "").lower())]
    if set(flags) != set(_list(reservation.flags)):
        changes["Flags"] = ",".join(flags), reservation.flags
    return changes


def _updates(changes: Mapping[str, tuple[str, str]]) -> Iterator[list[str]]:
    """Yield the changes in scontrol's form: it takes each word once, and adds or removes flags."""
    first, second = [], []
    for key, (old, new) in changes.items():
        if key == "Flags":
            old_flags, new_flags = _list(old), _list(new)
            first += (
                [f"Flags+={','.join(flag for flag in new_flags if flag not in old_flags)}"]
                if set(new_flags) - set(old_flags)
                else []
            )
            second += (
                [f"Flags-={','.join(flag for flag in old_flags if flag not in new_flags)}"]
                if set(old_flags) - set(new_flags)
                else []
            )
        else:
            first.append(f"{key}={new}" if new else f"{key}-={old}")
    yield from filter(None, (first, second))


def _words(changes: Mapping[str, tuple[str, str]], which: int) -> str:
    """Return the old values of the differences, or the new ones."""
    return " ".join(f"{key.lower()}={values[which]}" for key, values in changes.items())


def _is_over(reservation: Reservation) -> bool:
    return _span(reservation)[1] <= time.time()


def _span(reservation: Reservation) -> tuple[float, float]:
    """Return start and end, seconds since 1970."""
    begins_s = _seconds(reservation.start)
    return begins_s, begins_s + 60 * reservation.minutes


def _seconds(text: str) -> float:
    """Return a time by this node's clock, which is Slurm's, too."""
    try:
        return time.mktime(time.strptime(text, _TIME))
    except ValueError as error:
        raise NodeError(f"scontrol shows {text!r} as a time") from error


def _clock(seconds: float) -> str:
    return time.strftime(_TIME, time.localtime(seconds))


def _list(text: str) -> list[str]:
    return [word for word in text.split(",") if word and word != "(null)"]


@lru_cache(maxsize=None)
def _names(hostlist: str) -> frozenset[str]:
    """Return the nodes of a hostlist, by Slurm's own reading of it."""
    return frozenset(_scontrol("show", "hostnames", hostlist).split()) if _list(hostlist) else frozenset()


def _scontrol(*words: str) -> str:
    """Run it. Raises NodeError with its own words."""
    outcome = commands.run(["scontrol", *words], _TIMEOUT_S)
    if outcome.rc != 0:
        reason = (
            f"no end within {_TIMEOUT_S} s" if outcome.timed_out else readable(outcome.stderr or outcome.stdout, 500)
        )
        raise NodeError(f"`scontrol {' '.join(words)}`: {reason}")
    return outcome.whole("scontrol")
