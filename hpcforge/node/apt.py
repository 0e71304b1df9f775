"""apt-get and dpkg as programs: run to their end, with progress, and their words understood."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcforge.node import commands
from hpcforge.node.events import EventReporter, readable

LOCK_WAIT_S = 300  # for another apt or dpkg to end; its lock is never broken
_PROGRESS_S = 2.0
_KEPT_LINES = 60
_PAUSE_S = 2.0
_COMMAND_LENGTH = 100  # of the holder of a lock, characters: the beginning names the program

_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBCONF_NONINTERACTIVE_SEEN": "true",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
    "TERM": "dumb",
}
_OPTIONS = (
    # It would wait without a word now and then: what decides about that is not initialised (MajorChange of apt's
    # OpProgress, 2.6 to 3.1, with -q). So we wait, and say for whom.
    "DPkg::Lock::Timeout=0",
    "DPkg::Options::=--force-confold",
    "DPkg::Options::=--force-confdef",
    "Dpkg::Use-Pty=0",
    "Acquire::Retries=1",
    "Acquire::http::Timeout=30",
    "APT::Color=0",
    "APT::Get::AutomaticRemove=0",  # nothing goes that no plan has shown
)
_KINDS = (
    # The order matters: an unsigned repository also "failed to fetch", and must never be tried until it works.
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


class AptResult(NamedTuple):
    """How a run ended; `output` are its last lines."""

    rc: int
    output: tuple[str, ...]


def run(verb: str, arguments: Sequence[str], report: EventReporter) -> AptResult:
    """Run apt-get VERB; where another process holds a lock, wait up to LOCK_WAIT_S for it and say who has it."""
    options = [word for option in _OPTIONS for word in ("-o", option)]
    return _patiently(lambda: _once(["apt-get", "-y", "-q", *options, verb, *arguments], report), report)


def configure(report: EventReporter) -> AptResult:
    """Run `dpkg --configure -a`."""
    argv = ["dpkg", "--force-confold", "--force-confdef", "--configure", "-a"]
    return _patiently(lambda: _once(argv, report, status=False), report)


def kind(output: Sequence[str]) -> str:
    """What sort of failure it was: signature, lock, unknown, stale, network or other."""
    text = "\n".join(output)
    return next((name for name, pattern in _KINDS if re.search(pattern, text)), "other")


def essence(output: Sequence[str], lines: int = 8) -> str:
    """The lines that say why, else the last ones."""
    told = [line for line in dict.fromkeys(output) if _INTERESTING.search(line)]
    return readable("\n".join((told or list(output))[-lines:]), 1500) or "it said nothing"


def progress_text(line: str) -> str | None:
    """A line of apt's status descriptor for people."""
    parts = line.split(":", 3)
    if len(parts) != 4 or parts[0] not in ("dlstatus", "pmstatus"):
        return None
    percent = parts[2].split(".")[0]
    return f"{percent} % downloaded" if parts[0] == "dlstatus" else f"{percent} % installed: {parts[3]}"


def lock_holder(line: str, proc: Path = Path("/proc")) -> str:
    """Return a line about a lock with the holder's command and unit, where it names a process that still runs."""
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
        text = lock_holder(next(line for line in end.output if kind([line]) == "lock"))  # the first names who has it
        if time.monotonic() > deadline:
            return AptResult(end.rc, (*end.output, f"E: waited {LOCK_WAIT_S} s for the lock: {text}"))
        if text != reported:
            report.progress(None, f"waiting: {text}")
        reported = text
        time.sleep(_PAUSE_S)


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
        # No time limit: killing dpkg half way is worse than waiting; the operator host's patience is the limit.
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
        *whole, last = bytes(rest).replace(b"\r", b"\n").split(b"\n")
        rest[:] = last[-65536:]
        for line in whole:
            if line.strip():
                use(readable(line, 500))

    return sink


def _limited(report: EventReporter) -> Callable[[str], None]:
    last_s, last_text = 0.0, ""

    def say(text: str) -> None:
        nonlocal last_s, last_text
        now = time.monotonic()
        if text != last_text and now - last_s >= _PROGRESS_S:
            last_s, last_text = now, text
            report.progress(None, text)

    return say
