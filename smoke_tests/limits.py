"""Time limits of this process, kept by a second one, which no library and no lock of this one can stop.

A rank in a collective of NCCL waits in the driver, where no exception and no Python signal handler reaches it, and
PyTorch's own watchdog ends it a minute late and without a word for people. So the keeper, a process beside the rank,
reads deadlines from memory that both share. When one has passed it asks the rank for its place in the program, writes
the line that the rank left for that case, and ends the rank by SIGALRM: `Limits` is the rank's side, `keep` the other.

The place comes from faulthandler, whose handler needs neither the interpreter's lock nor a thread of its own. A rank
that a signal has stopped is reported as stopped, in a collective at its limit, elsewhere after as long. Should the
keeper be killed, the kernel's own timer ends the rank at the limit of its test. A line that standard output does not
take within a second is lost. Where a launcher ends a rank by SIGTERM, for another that failed, the keeper gets that
signal too and reports the rank's place: a rank that waited is then told from one that never came.

Standard library, Python 3.9, Linux 3.17 (memfd_create).
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress

TEST, COLLECTIVE = range(2)  # slots: a limit of the whole test, and one of what the rank waits for
POLL_S = 0.2
_HEAD = struct.Struct("=ddI")  # deadline by the monotonic clock, 0: none; s that it may be stopped; bytes of the line
_SLOT = 2048
_SHARED = _SLOT * 2
_FRAME = re.compile(r'^  File "([^"]{1,4096})", line (\d{1,9}) in (\S{1,200})', re.MULTILINE)
_PROGRAMS = os.path.dirname(os.path.abspath(__file__)) + "/"  # noqa: PTH100, PTH120  pathlib would double the start
_PLACE_S = 1.0  # for a place to arrive
_WRITE_S = 1.0
_LATER_S = 10.0  # by which the kernel's timer outlasts the keeper


class Limits:
    """Deadlines of this process. Without `start` none is kept."""

    def __init__(self) -> None:
        self._shared: mmap.mmap | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the keeper. It ends with this process."""
        memory = os.memfd_create("limits")
        os.ftruncate(memory, _SHARED)
        self._shared = mmap.mmap(memory, _SHARED)
        os.lseek(memory, 0, os.SEEK_END)  # where faulthandler writes
        faulthandler.register(signal.SIGUSR1, memory, all_threads=False)
        faulthandler.register(signal.SIGTERM, memory, all_threads=False, chain=True)
        command = [sys.executable, "-IS", __file__, str(os.getpid())]
        self._keeper = subprocess.Popen(command, stdin=memory)

    def stop(self) -> None:
        """End the keeper."""
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.wait()
            self._keeper = None

    def set(self, slot: int, limit_s: float, line: str, stopped_s: float = 0.0) -> bytes:
        """Have `line` written and this process ended `limit_s` from now; returns what the slot had, for `restore`.

        `stopped_s`: for how long at most a signal may have stopped it; 0: until the limit.
        """
        text = line.encode()[: _SLOT - _HEAD.size]
        if slot == TEST:
            signal.setitimer(signal.ITIMER_REAL, limit_s + _LATER_S)
        return self.restore(slot, _HEAD.pack(time.monotonic() + limit_s, stopped_s, len(text)) + text)

    def restore(self, slot: int, content: bytes = b"") -> bytes:
        """Give a slot the content that it had before, or none; returns what it had."""
        if self._shared is None:
            return b""
        if slot == TEST and not content:
            signal.setitimer(signal.ITIMER_REAL, 0)
        begin = slot * _SLOT
        before = _content(self._shared, slot)
        self._shared[begin : begin + _HEAD.size] = bytes(_HEAD.size)
        self._shared[begin + _HEAD.size : begin + max(len(content), _HEAD.size)] = content[_HEAD.size :]
        self._shared[begin : begin + _HEAD.size] = content[: _HEAD.size] or bytes(_HEAD.size)
        return before


def _content(shared: mmap.mmap, slot: int) -> bytes:
    begin = slot * _SLOT
    _, _, size = _HEAD.unpack_from(shared, begin)
    return shared[begin : begin + _HEAD.size + min(size, _SLOT - _HEAD.size)]


def keep(rank: int) -> None:
    """Keep the limits of a process, this one's parent, until it ends. Its memory is standard input."""
    shared = mmap.mmap(0, _SHARED, prot=mmap.PROT_READ)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda *_: report_end(shared, rank))
    passed: set[bytes] = set()
    halted_at = 0.0
    while os.getppid() == rank:
        now = time.monotonic()
        halted_at = (halted_at or now) if stopped(rank) else 0.0
        late = [
            each for each in (_content(shared, slot) for slot in (COLLECTIVE, TEST)) if _is_late(each, now, halted_at)
        ]
        for content in late:
            if content in passed:  # twice the same: it was not read while it was being written
                end(rank, content[_HEAD.size :].decode(errors="replace"))
                return
        passed = set(late)
        time.sleep(POLL_S)


def _is_late(content: bytes, now: float, halted_at: float) -> bool:
    """Return whether a slot's deadline has passed, or its process has been stopped for longer than it may be."""
    deadline, stopped_s, _ = _HEAD.unpack_from(content)
    return 0 < deadline < now or 0 < stopped_s < now - halted_at < now


def end(rank: int, line: str) -> None:
    """Write the line, with the place of a rank in its program, and end the rank."""
    halted = stopped(rank)
    place = "" if halted else place_of(rank)
    write(completed(line, place, halted))
    for signal_number in (signal.SIGALRM, signal.SIGKILL):
        if os.getppid() == rank:
            os.kill(rank, signal_number)
            time.sleep(POLL_S)


def report_end(shared: mmap.mmap, rank: int) -> None:
    """Write what a rank that a launcher has ended was at, and end."""
    line, test = (_content(shared, slot)[_HEAD.size :].decode(errors="replace") for slot in (COLLECTIVE, TEST))
    halted = stopped(rank)
    place = "" if halted else place_of(rank, 0)
    if test.startswith("{"):
        event = json.loads(line or test)
        words = f"ended while it waited in {event['collective']}" if line else ""
        event.update({"error": words} if line else {"event": "ended"})
        write(completed(json.dumps(event), place, halted))
    os._exit(0)


def write(line: str) -> None:
    """Write a line, if standard output takes it: a pipe that nobody reads must not hold up the end of a rank."""
    with suppress(OSError):
        if select.select([], [1], [], _WRITE_S)[1]:
            os.write(1, (line + "\n").encode()[: select.PIPE_BUF])


def stopped(rank: int) -> bool:
    """Return whether a signal such as SIGSTOP, or a debugger, has stopped a process."""
    try:
        with open(f"/proc/{rank}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] in ("T", "t")
    except OSError:
        return False


def place_of(rank: int, number: int = signal.SIGUSR1) -> str:
    """Return the place of a rank in its program, as it writes it at a signal: `train_ddp.py:107 forward_backward`.

    "" if it does not. `number`: the signal; 0: the rank has had one.
    """
    until = time.monotonic() + _PLACE_S
    with suppress(ProcessLookupError):
        os.kill(rank, number)
    while time.monotonic() < until:
        place = innermost(os.pread(0, 1 << 16, _SHARED).decode(errors="replace"))
        if place or os.getppid() != rank:
            return place
        time.sleep(0.02)
    return ""


def innermost(stack: str) -> str:
    """Return the innermost frame of a stack of faulthandler's that is in the smoke tests."""
    own = (frame for frame in _FRAME.findall(stack) if frame[0].startswith(_PROGRAMS))
    file, line, function = next(own, ("", "", ""))
    return f"{file.rpartition('/')[2]}:{line} {function}" if file else ""


def completed(line: str, place: str, halted: bool) -> str:
    """Return a line, of JSON or of text, with the place of the rank, and that it was stopped."""
    words = "stopped by a signal" if halted else f"at {place}" if place else ""
    if not line.startswith("{"):
        return f"{line} ({words})" if words else line
    event = json.loads(line)
    if halted:
        event.update(event="failed", during="own", error=words)
    if event["event"] != "overdue":
        event.pop("limit_s", None)
    return json.dumps({**event, **({"place": place} if place else {})})


if __name__ == "__main__":
    keep(int(sys.argv[1]))
