"""Reservations that Slurm's controller has: read and changed by scontrol, where it runs.

The receipt has `{"before": whether it was there before us}`: such a one stays. Slurm forgets a reservation once it is
over, and takes none whose beginning has passed. So the node's clock says of each whether it is still to be there, one
that has begun keeps its beginning, and one that is made too late begins now and ends as it should.
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
_FLAGS = ("maint", "ignore_jobs")  # of what Slurm shows besides some is its own, and some cannot be taken back
_TIME = "%Y-%m-%dT%H:%M:%S"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NODES = re.compile(r"[A-Za-z0-9][A-Za-z0-9,\[\]-]{0,65535}")
_WORDS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,-]{0,4095}")

There = Mapping[str, str]


def compare(wanted: Reservation) -> Json | None:
    """Return the differences in Slurm."""
    said: Json = {"name": wanted.name, "exists": False, "found": None, "wanted": None, "unknown": None}
    if _is_over(wanted):
        return None
    if not _set_up():
        return said
    try:
        there = _reservations().get(wanted.name)
        changes = None if there is None else _changes(wanted, there)
    except NodeError:
        return {**said, "unknown": _SILENT}
    if changes is None:
        return said
    if not changes:
        return None
    return {**said, "exists": True, "found": _said(changes, 0), "wanted": _said(changes, 1)}


def obstacle(wanted: Reservation, known: Json | None) -> str | None:  # noqa: ARG001
    """Return the reason for which scontrol would refuse or misread it."""
    if not _NAME.fullmatch(wanted.name):
        return f"{wanted.name!r} is not a valid reservation name"
    if not _NODES.fullmatch(wanted.nodes):
        return f"reservation {wanted.name}: {wanted.nodes!r} is not a hostlist"
    try:
        time.strptime(wanted.start, _TIME)
    except ValueError:
        return f"reservation {wanted.name}: {wanted.start!r} is not a time such as 2027-03-01T08:00:00"
    if wanted.minutes < 1:
        return f"reservation {wanted.name} lasts {wanted.minutes} minutes"
    if not (wanted.users or wanted.accounts):
        return f"reservation {wanted.name} needs users or accounts"
    for words in filter(None, (wanted.users, wanted.accounts)):
        if not _WORDS.fullmatch(words):
            return f"reservation {wanted.name}: {words!r} are not names"
    strange = [flag for flag in _list(wanted.flags) if flag not in _FLAGS]
    return f"reservation {wanted.name}: unknown flag {strange[0]!r}; use {', '.join(_FLAGS)}" if strange else None


def put(wanted: Reservation) -> str | None:
    """Make it, or change what differs; None where it is as wanted, or over by now."""
    if _is_over(wanted):
        return None
    there, named = _awaited().get(wanted.name), f"ReservationName={wanted.name}"
    if there is None:
        begins_s, ends_s = _span(wanted)
        start = "now" if begins_s <= time.time() else wanted.start
        said = {"Users": wanted.users, "Accounts": wanted.accounts, "Flags": wanted.flags}
        rest = [f"{key}={value}" for key, value in said.items() if value]
        _scontrol("create", "reservation", named, f"StartTime={start}", f"EndTime={_clock(ends_s)}",
                  f"Nodes={wanted.nodes}", *rest)  # fmt: skip
        return "reserved"
    changes = _changes(wanted, there)
    if not changes:
        return None
    for words in _told(changes):
        _scontrol("update", named, *words)
    return _said(changes, 1)


def own(name: str, change: Reservation | None, made: set[str]) -> Json:  # noqa: ARG001
    """Whether it was there before us; one that is over was not."""
    return {"before": name in _awaited() if change and not _is_over(change) else is_there(name)}


def restore(name: str, known: Json, report: EventReporter) -> str | None:
    """Without it. Where Slurm's controller is gone from this node, it is gone with that."""
    if not _set_up() or not units.query([_CONTROLLER])[_CONTROLLER].enabled:
        return None
    if name not in _reservations():
        return None
    if known["before"]:
        report.warning(f"reservation {name}: {_BEFORE}, so it stays")
        return None
    try:
        _scontrol("delete", f"ReservationName={name}")
    finally:
        _reservations.cache_clear()
    return "removed"


def is_there(name: str) -> bool:
    """Whether it is there, as far as that is known."""
    try:
        return _set_up() and name in _reservations()
    except NodeError:
        return False


def stays(name: str, known: Json) -> KeptItem | None:
    """Return the earlier reservation."""
    return ("reservation", name, _BEFORE) if known["before"] else None


def room(wanted: Reservation) -> list[SpaceNeed]:  # noqa: ARG001
    """Return the space for a line of Slurm's state."""
    return []


def _set_up() -> bool:
    """Whether Slurm is configured here."""
    return files.read_text(_CONFIG) is not None


def _awaited() -> Mapping[str, There]:
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
def _reservations() -> Mapping[str, There]:
    """All that there are, by name: a mapping of words each, as scontrol shows them."""
    lines = _scontrol("--oneliner", "show", "reservation").splitlines()  # where there are none it says so
    rows = [dict(word.partition("=")[::2] for word in line.split()) for line in lines]
    return {row["ReservationName"]: row for row in rows if "ReservationName" in row}


def _changes(wanted: Reservation, there: There) -> dict[str, tuple[str, str]]:
    """Return the differences, by scontrol's word: the present and the desired value."""
    begins_s, ends_s = _span(wanted)
    changes = {}
    began_s, now_s = _seconds(there.get("StartTime", "")), time.time()
    if began_s != begins_s and max(began_s, begins_s) > now_s:
        changes["StartTime"] = there.get("StartTime", ""), "now" if begins_s <= now_s else wanted.start
    if _seconds(there.get("EndTime", "")) != ends_s or changes:
        changes["EndTime"] = there.get("EndTime", ""), _clock(ends_s)
    if _names(there.get("Nodes", "")) != _names(wanted.nodes):
        changes["Nodes"] = there.get("Nodes", ""), wanted.nodes
    for key, names in (("Users", wanted.users), ("Accounts", wanted.accounts)):
        if set(_list(there.get(key, ""))) != set(_list(names)):
            changes[key] = ",".join(_list(there.get(key, ""))), names
    flags = [flag for flag in _FLAGS if flag in _list(there.get("Flags", "").lower())]
    if set(flags) != set(_list(wanted.flags)):
        changes["Flags"] = ",".join(flags), wanted.flags
    return changes


def _told(changes: Mapping[str, tuple[str, str]]) -> Iterator[list[str]]:
    """Yield the changes in scontrol's form: it takes each word once, and adds or removes flags."""
    first, then = [], []
    for key, (old, new) in changes.items():
        if key == "Flags":
            had, wants = _list(old), _list(new)
            first += [f"Flags+={','.join(flag for flag in wants if flag not in had)}"] if set(wants) - set(had) else []
            then += [f"Flags-={','.join(flag for flag in had if flag not in wants)}"] if set(had) - set(wants) else []
        else:
            first.append(f"{key}={new}" if new else f"{key}-={old}")
    yield from filter(None, (first, then))


def _said(changes: Mapping[str, tuple[str, str]], which: int) -> str:
    """Return the old values of the differences, or the new ones."""
    return " ".join(f"{key.lower()}={both[which]}" for key, both in changes.items())


def _is_over(wanted: Reservation) -> bool:
    return _span(wanted)[1] <= time.time()


def _span(wanted: Reservation) -> tuple[float, float]:
    """From when until when, seconds since 1970."""
    begins_s = _seconds(wanted.start)
    return begins_s, begins_s + 60 * wanted.minutes


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
        why = f"no end within {_TIMEOUT_S} s" if outcome.timed_out else readable(outcome.stderr or outcome.stdout, 500)
        raise NodeError(f"`scontrol {' '.join(words)}`: {why}")
    return outcome.whole("scontrol")
