"""Transactions of apt: runs apt-get and dpkg, reports progress, and interprets their messages.

One transaction installs missing packages, and one removes packages.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcforge.node import commands, disk_space
from hpcforge.node.events import EventReporter, NodeError, readable
from hpcforge.node.package_manager import TransactionResult
from hpcforge.node.package_manager.apt import dpkg, service_starts
from hpcforge.node.package_manager.apt import files as apt_files
from hpcforge.node.package_manager.apt import simulation as apt_simulation

LOCK_WAIT_S = 300  # wait for another apt or dpkg; its lock is never broken
_PROGRESS_S = 2.0
_KEPT_LINES = 60
_LOCK_PAUSE_S = 2.0
_COMMAND_LENGTH = 100  # characters of a lock holder's command: its beginning names the program

_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBCONF_NONINTERACTIVE_SEEN": "true",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
    "TERM": "dumb",
}
_OPTIONS = (
    # apt sometimes waits without a message: the deciding variable is not initialised (MajorChange of apt's
    # OpProgress, 2.6 to 3.1, with -q). So hpcforge waits, and names the holder.
    "DPkg::Lock::Timeout=0",
    "DPkg::Options::=--force-confold",
    "DPkg::Options::=--force-confdef",
    "Dpkg::Use-Pty=0",
    "Acquire::Retries=1",
    "Acquire::http::Timeout=30",
    "APT::Color=0",
    "APT::Get::AutomaticRemove=0",  # only removals of the plan are allowed
)
_KINDS = (
    # The order matters: an unsigned repository also "failed to fetch", and must never be tried again.
    (
        "signature",
        r"NO_PUBKEY|BADSIG|EXPKEYSIG|REVKEYSIG|GPG error|is not signed|signature verification|unauthenticated",
    ),
    ("lock", r"Could not get lock|(?:lock was|is) locked by another process|Unable to acquire the dpkg frontend lock"),
    ("unknown", r"Unable to locate package|has no installation candidate|Couldn't find any package"),
    ("stale", r"404 +Not Found|Hash Sum mismatch|File has unexpected size"),
    (
        "network",
        r"Failed to fetch|Could not (?:connect|resolve)|Temporary failure resolving|Connection (?:failed|timed out)",
    ),
)
_HOLDER = re.compile(r"(?:held by process|by another process with pid) (\d+)")
_INTERESTING = re.compile(r"^(?:E:|W:|dpkg: error|dpkg: unrecoverable| *subprocess )|No space left")
_PURGE_S = 60
_NETWORK_TRIES = 3
_NETWORK_PAUSE_S = 5
_CONFIGURE = "dpkg --configure -a: "


class AptResult(NamedTuple):
    """The exit status of a run, and its last lines of output."""

    rc: int
    output: tuple[str, ...]


def run(verb: str, arguments: Sequence[str], report: EventReporter) -> AptResult:
    """Run apt-get VERB; if another process holds a lock, report it and wait up to LOCK_WAIT_S."""
    options = [word for option in _OPTIONS for word in ("-o", option)]
    return _patiently(lambda: _once(["apt-get", "-y", "-q", *options, verb, *arguments], report), report)


def configure(report: EventReporter) -> AptResult:
    """Run `dpkg --configure -a`."""
    argv = ["dpkg", "--force-confold", "--force-confdef", "--configure", "-a"]
    return _patiently(lambda: _once(argv, report, status=False), report)


def kind(output: Sequence[str]) -> str:
    """Return the kind of failure: signature, lock, unknown, stale, network or other."""
    text = "\n".join(output)
    return next((name for name, pattern in _KINDS if re.search(pattern, text)), "other")


def essence(output: Sequence[str], lines: int = 8) -> str:
    """Return the lines with the cause, else the last ones."""
    causes = [line for line in dict.fromkeys(output) if _INTERESTING.search(line)]
    return readable("\n".join((causes or list(output))[-lines:]), 1500) or "it said nothing"


def progress_text(line: str) -> str | None:
    """Return a line of apt's status descriptor as progress text."""
    parts = line.split(":", 3)
    if len(parts) != 4 or parts[0] not in ("dlstatus", "pmstatus"):
        return None
    percent = parts[2].split(".")[0]
    return f"{percent} % downloaded" if parts[0] == "dlstatus" else f"{percent} % installed: {parts[3]}"


def lock_holder(line: str, proc: Path = Path("/proc")) -> str:
    """Return a line about a lock, with the holder's command and unit if its process still runs."""
    match = _HOLDER.search(line)
    folder = proc / (match.group(1) if match else "none")
    try:
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
        groups = (folder / "cgroup").read_text("utf-8", "replace")
    except OSError:
        return line
    unit = next((part for part in reversed(groups.strip().split("/")) if part.endswith((".service", ".scope"))), "")
    command = readable(words[:_COMMAND_LENGTH] + ("..." if len(words) > _COMMAND_LENGTH else ""))
    return f"{line}: {command}" + (f" (unit {unit})" if unit else "")


def _patiently(once: Callable[[], AptResult], report: EventReporter) -> AptResult:
    deadline, reported = time.monotonic() + LOCK_WAIT_S, ""
    while True:
        end = once()
        if end.rc == 0 or kind(end.output) != "lock":
            return end
        text = lock_holder(next(line for line in end.output if kind([line]) == "lock"))  # the first names the holder
        if time.monotonic() > deadline:
            return AptResult(end.rc, (*end.output, f"E: waited {LOCK_WAIT_S} s for the lock: {text}"))
        if text != reported:
            report.progress(None, f"waiting: {text}")
        reported = text
        time.sleep(_LOCK_PAUSE_S)


def _once(argv: list[str], report: EventReporter, status: bool = True) -> AptResult:
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    say = _limited(report)

    def step(line: str) -> None:
        text = progress_text(line)
        if text:
            say(text)

    reader, writer = os.pipe()
    try:
        if status:
            argv = [argv[0], "-o", f"APT::Status-Fd={writer}", *argv[1:]]
        process = commands.start(argv, subprocess.STDOUT, _ENVIRONMENT, (writer,))
        os.close(writer)
        writer = -1
        assert process.stdout is not None
        # No time limit: killing dpkg half way is worse than waiting. The operator host has its own limit.
        commands.pump(process, {process.stdout.fileno(): _lines(lines.append), reader: _lines(step)}, None)
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)
    return AptResult(process.returncode, tuple(lines))


def _lines(use: Callable[[str], None]) -> Callable[[bytes], None]:
    rest = bytearray()

    def sink(data: bytes) -> None:
        rest.extend(data)
        *complete, last = bytes(rest).replace(b"\r", b"\n").split(b"\n")
        rest[:] = last[-65536:]
        for line in complete:
            if line.strip():
                use(readable(line, 500))

    return sink


def _limited(report: EventReporter) -> Callable[[str], None]:
    last_s, last_text = 0.0, ""

    def say(text: str) -> None:
        nonlocal last_s, last_text
        now_s = time.monotonic()
        if text != last_text and now_s - last_s >= _PROGRESS_S:
            last_s, last_text = now_s, text
            report.progress(None, text)

    return say


def install(
    names: Sequence[str], fresh_lists: bool, removes: Collection[str], report: EventReporter
) -> TransactionResult:
    """Install in one transaction, and start no service that does not run yet.

    `removes`: packages that may be removed for it; nothing is done if apt would remove others. `fresh_lists`: sources
    changed, so read them again first. Downloads are repeated after network failures, never after bad signatures.
    """
    with service_starts.held():
        error = _finish_interrupted(report)
        if error:
            return TransactionResult(frozenset(), error)
        return _install(list(names), fresh_lists or not _has_lists(), frozenset(removes), report)


def purge(names: Sequence[str], report: EventReporter) -> frozenset[str]:
    """Remove packages and their configuration; return the removed ones. NodeError if others would be removed, too."""
    present = dpkg.recorded(names)
    if not present:
        return frozenset()
    error = _finish_interrupted(report)
    if error:
        raise NodeError(error)
    plan = commands.succeed(["apt-get", "-s", "-q", "purge", "--", *present], _PURGE_S)
    others = sorted(apt_simulation.leaving(plan) - set(present))
    if others:
        raise NodeError(
            f"purging {', '.join(present)} would also remove {', '.join(others)}: nothing was purged; do it by hand"
        )
    end = run("purge", ["--", *present], report)
    if end.rc != 0:
        raise NodeError(f"apt-get purge: {essence(end.output)}")
    return frozenset(present)


def _install(names: list[str], refresh: bool, removes: frozenset[str], report: EventReporter) -> TransactionResult:
    unknown: frozenset[str] = frozenset()
    failures, refreshed, forbidden, trouble = 0, False, False, ""
    while names:
        if refresh:
            trouble, refresh, refreshed = _update(report), False, True
        removals = apt_simulation.install(names) if removes or forbidden else None
        if removals and removals - removes:
            return TransactionResult(unknown, _forbidden_removals(names, removals - removes))
        disk_space.check_packages(names)
        end = run("install", ["--no-install-recommends", *([] if removals else ["--no-remove"]), "--", *names], report)
        if end.rc == 0:  # a package without a source: the cause may be a source with an invalid signature
            return TransactionResult(unknown, trouble or None if unknown else None)
        failure = kind(end.output)
        lacking = apt_simulation.unknown(end.output) & set(names)
        if apt_simulation.refused(end.output) and not forbidden:
            forbidden = True  # again, to name the packages that would be removed
        elif not refreshed and (failure in ("unknown", "stale") or any(apt_files.damaged())):
            refresh = True
        elif lacking:
            unknown, names = unknown | lacking, [name for name in names if name not in lacking]
        elif failure == "network" and failures < _NETWORK_TRIES - 1:
            failures += 1
            report.progress(None, f"cannot fetch packages, trying again ({failures}/{_NETWORK_TRIES - 1})")
            time.sleep(_NETWORK_PAUSE_S * failures)
        else:
            error = f"apt-get install: {essence(end.output)}"
            return TransactionResult(unknown, f"{error}\nand before it, {trouble}" if trouble else error)
    return TransactionResult(unknown, trouble or None)


def _forbidden_removals(names: Sequence[str], others: Collection[str]) -> str:
    return (
        f"apt would remove {', '.join(sorted(others))} to install {' '.join(names)}, which was not in the plan: "
        "nothing was installed; plan again to see it, and apply if you agree"
    )


def _update(report: EventReporter) -> str:
    """Read the package lists again; return the error, which may not matter, or ""."""
    dropped = apt_files.drop_damaged()
    if dropped:
        report.progress(None, f"package lists are damaged, fetching them again: {' '.join(dropped)}")
    for attempt in range(_NETWORK_TRIES):
        end = run("update", [], report)
        failure = kind(end.output)
        if failure != "network" or attempt == _NETWORK_TRIES - 1:
            break
        time.sleep(_NETWORK_PAUSE_S)
    bad = end.rc != 0 or failure in ("network", "signature")  # apt calls some failures warnings and returns 0
    return f"apt-get update: {essence(end.output)}" if bad else ""


def _finish_interrupted(report: EventReporter) -> str | None:
    """Finish an interrupted dpkg; return the error, or None.

    A package that fails to configure does not stop others: apt reports it, and installs the rest.
    """
    if dpkg.was_interrupted():
        report.progress(None, "dpkg was interrupted: dpkg --configure -a")
        end = configure(report)  # it also applies dpkg's journal, whatever its exit status
        if end.rc != 0 and kind(end.output) == "lock":
            return _CONFIGURE + essence(end.output)
    names = dpkg.half_unpacked()
    return _unpack_again(names, report) if names else None


def _unpack_again(names: Sequence[str], report: EventReporter) -> str | None:
    """Reinstall packages after interrupted unpacking, since nothing else repairs them; return the error, or None."""
    command = f"apt-get install --reinstall {' '.join(names)}"
    report.progress(None, f"dpkg was interrupted while it unpacked: {command}")
    arguments = ["--reinstall", "--fix-broken", "--no-remove", "--no-install-recommends", "--", *names]
    end = run("install", arguments, report)
    if end.rc != 0:  # the archive of that version may be gone, or the lists
        trouble = _update(report)
        end = run("install", arguments, report)
        if end.rc != 0:
            return "\n".join(filter(None, [f"{command}: {essence(end.output)}", trouble]))
    end = configure(report)
    return None if end.rc == 0 else _CONFIGURE + essence(end.output)


def _has_lists() -> bool:
    return any(apt_files.LISTS.glob("*_Packages*"))
