"""Packages: one transaction for those that are not there, and one for those that are to go."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcforge.node import apt, apt_simulation, commands, disk_space, dpkg, package_lists, service_starts
from hpcforge.node.events import EventReporter, NodeError

_QUERY_S = 60
_NETWORK_TRIES = 3
_PAUSE_S = 5
_JOURNAL = Path("/var/lib/dpkg/updates")
_CONFIGURE = "dpkg --configure -a: "


class TransactionResult(NamedTuple):
    """How a transaction went: packages that no source has, and why the rest is not there (None: it is)."""

    unknown: frozenset[str]
    error: str | None


def install(
    names: Sequence[str], fresh_lists: bool, removes: Collection[str], report: EventReporter
) -> TransactionResult:
    """Install in one transaction, starting no service that does not run yet.

    `removes`: what may go for it; where apt would remove anything else, nothing is done. `fresh_lists`: sources
    changed, so read them again first. Network failures are tried again, bad signatures never.
    """
    with service_starts.held():
        error = _mend(report)
        if error:
            return TransactionResult(frozenset(), error)
        return _install(list(names), fresh_lists or not _lists_there(), frozenset(removes), report)


def purge(names: Sequence[str], report: EventReporter) -> frozenset[str]:
    """Remove packages and their configuration; those that are gone now. NodeError where others would have to go too."""
    known = dpkg.known(names)
    if not known:
        return frozenset()
    error = _mend(report)
    if error:
        raise NodeError(error)
    plan = commands.succeed(["apt-get", "-s", "-q", "purge", "--", *known], _QUERY_S)
    others = sorted(apt_simulation.leaving(plan) - set(known))
    if others:
        raise NodeError(
            f"purging {', '.join(known)} would also remove {', '.join(others)}: nothing was purged; do it by hand"
        )
    end = apt.run("purge", ["--", *known], report)
    if end.rc != 0:
        raise NodeError(f"apt-get purge: {apt.essence(end.output)}")
    return frozenset(known)


def _install(names: list[str], refresh: bool, removes: frozenset[str], report: EventReporter) -> TransactionResult:
    unknown: frozenset[str] = frozenset()
    failures, refreshed, forbidden, trouble = 0, False, False, ""
    while names:
        if refresh:
            trouble, refresh, refreshed = _update(report), False, True
        goes = apt_simulation.install(names) if removes or forbidden else None
        if goes and goes - removes:
            return TransactionResult(unknown, _would_go(names, goes - removes))
        disk_space.check_packages(names)
        end = apt.run("install", ["--no-install-recommends", *([] if goes else ["--no-remove"]), "--", *names], report)
        if end.rc == 0:  # of what no source has, the reason may be a source that was not believed
            return TransactionResult(unknown, trouble or None if unknown else None)
        kind = apt.kind(end.output)
        lacking = apt_simulation.unknown(end.output) & set(names)
        if apt_simulation.refused(end.output) and not forbidden:
            forbidden = True  # once more, to name what would go
        elif not refreshed and (kind in ("unknown", "stale") or any(package_lists.damaged())):
            refresh = True
        elif lacking:
            unknown, names = unknown | lacking, [name for name in names if name not in lacking]
        elif kind == "network" and failures < _NETWORK_TRIES - 1:
            failures += 1
            report.progress(None, f"cannot fetch packages, trying again ({failures}/{_NETWORK_TRIES - 1})")
            time.sleep(_PAUSE_S * failures)
        else:
            error = f"apt-get install: {apt.essence(end.output)}"
            return TransactionResult(unknown, f"{error}\nand before it, {trouble}" if trouble else error)
    return TransactionResult(unknown, trouble or None)


def _would_go(names: Sequence[str], others: Collection[str]) -> str:
    return (
        f"apt would remove {', '.join(sorted(others))} to install {' '.join(names)}, which was not in the plan: "
        "nothing was installed; plan again to see it, and apply if you agree"
    )


def _update(report: EventReporter) -> str:
    """Read the package lists again; what went wrong (it may not matter), or nothing."""
    gone = package_lists.drop_damaged()
    if gone:
        report.progress(None, f"package lists are damaged, fetching them again: {' '.join(gone)}")
    for attempt in range(_NETWORK_TRIES):
        end = apt.run("update", [], report)
        kind = apt.kind(end.output)
        if kind != "network" or attempt == _NETWORK_TRIES - 1:
            break
        time.sleep(_PAUSE_S)
    bad = end.rc != 0 or kind in ("network", "signature")  # apt calls some failures warnings and returns 0
    return f"apt-get update: {apt.essence(end.output)}" if bad else ""


def _mend(report: EventReporter) -> str | None:
    """Finish what an interrupted dpkg left; why that is not possible, or None.

    A package whose configuration fails stops no other: apt reports it, and installs the rest.
    """
    if any(path.name.isdigit() for path in _JOURNAL.iterdir()):
        report.progress(None, "dpkg was interrupted: dpkg --configure -a")
        end = apt.configure(report)  # also takes in what dpkg had yet to write down, whatever its exit status
        if end.rc != 0 and apt.kind(end.output) == "lock":
            return _CONFIGURE + apt.essence(end.output)
    names = dpkg.half_unpacked()
    return _unpack_again(names, report) if names else None


def _unpack_again(names: Sequence[str], report: EventReporter) -> str | None:
    """Reinstall packages whose unpacking was cut off, since nothing else makes them whole; why not, or None."""
    what = f"apt-get install --reinstall {' '.join(names)}"
    report.progress(None, f"dpkg was interrupted while it unpacked: {what}")
    arguments = ["--reinstall", "--fix-broken", "--no-remove", "--no-install-recommends", "--", *names]
    end = apt.run("install", arguments, report)
    if end.rc != 0:  # the archive of that version may be gone, or the lists
        trouble = _update(report)
        end = apt.run("install", arguments, report)
        if end.rc != 0:
            return "\n".join(filter(None, [f"{what}: {apt.essence(end.output)}", trouble]))
    end = apt.configure(report)
    return None if end.rc == 0 else _CONFIGURE + apt.essence(end.output)


def _lists_there() -> bool:
    return any(Path("/var/lib/apt/lists").glob("*_Packages*"))
