"""Execution of programs: with limits of time and output, and never blocked by an inherited pipe."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hpcforge.node.events import NodeError, readable

OUTPUT_LIMIT = 4 * 1024 * 1024  # bytes kept of each stream; the rest is read and dropped
_SLICE_S = 0.2  # interval of polls for the end of a program that keeps its pipes open

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
}
_running: set[int] = set()  # process groups of programs that have not ended


def bound(limit_s: float) -> None:
    """Limit the time of this process: then it ends, with every program that it runs.

    The operator host has disconnected by then, and root's processes must not accumulate. If the process is busy where
    no signal handler runs, such as within a regular expression, the kernel ends it by its CPU time.
    """

    def end(_number: int, _frame: object) -> None:
        for group in tuple(_running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        os._exit(124)

    for kind, most in ((resource.RLIMIT_CPU, math.ceil(limit_s)), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit_s)


class CommandResult(NamedTuple):
    """The result of a program. `rc` is negative for a signal; -9 if `timed_out`. `cut`: `stdout` is incomplete."""

    rc: int
    stdout: str
    stderr: str
    timed_out: bool
    cut: bool = False

    def whole(self, program: str) -> str:
        """Return the complete standard output; NodeError, which names the program, if it was cut."""
        if self.cut:
            raise NodeError(
                f"`{program}`: more than {OUTPUT_LIMIT >> 20} MiB of output, of which the rest is not known"
            )
        return self.stdout


def run(argv: Sequence[str], timeout_s: float, merge: bool = False) -> CommandResult:
    """Run a program to its end or for `timeout_s`, then kill it and its children. `merge`: stderr into stdout.

    Raises NodeError if the program is missing or not executable.
    """
    streams = (bytearray(), bytearray())

    def keep(stream: bytearray) -> Callable[[bytes], None]:
        return lambda data: stream.extend(
            data[: max(0, OUTPUT_LIMIT + 1 - len(stream))]
        )  # one more shows that it is cut

    process = start(argv, stderr=subprocess.STDOUT if merge else subprocess.PIPE)
    sinks = {pipe.fileno(): keep(buffer) for pipe, buffer in zip((process.stdout, process.stderr), streams) if pipe}
    timed_out = pump(process, sinks, timeout_s)
    stdout, stderr = (buffer[:OUTPUT_LIMIT].decode("utf-8", "replace") for buffer in streams)
    return CommandResult(process.returncode, stdout, stderr, timed_out, len(streams[0]) > OUTPUT_LIMIT)


def succeed(argv: Sequence[str], timeout_s: float) -> str:
    """Run a program and return its output; NodeError with its message if it fails, or if the output is cut."""
    outcome = run(argv, timeout_s)
    if outcome.rc != 0:
        reason = f"not finished after {timeout_s:g} s" if outcome.timed_out else f"exit status {outcome.rc}"
        words = readable(outcome.stderr or outcome.stdout)
        raise NodeError(f"`{' '.join(argv)}`: {reason}" + (f": {words}" if words else ""))
    return outcome.whole(" ".join(argv))


def start(
    argv: Sequence[str], stderr: int, environment: Mapping[str, str] | None = None, keep_open: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a program in its own process group, without input and in a fixed environment."""
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
            env={**ENVIRONMENT, **(environment or {})},
            pass_fds=keep_open,
        )
    except FileNotFoundError:
        raise NodeError(f"program {argv[0]!r} does not exist on this node") from None
    except PermissionError:
        raise NodeError(f"{argv[0]!r} is not a program that can be run") from None
    _running.add(process.pid)
    return process


def pump(
    process: subprocess.Popen[bytes], sinks: Mapping[int, Callable[[bytes], None]], timeout_s: float | None
) -> bool:
    """Pass each descriptor's data to its sink until the program has ended; return True if it was killed.

    A daemon may inherit a descriptor and keep it open for ever, so the end of the program counts, not end of file.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    waiting, killed = set(sinks), False
    while True:
        remaining_s = _SLICE_S if deadline is None else min(_SLICE_S, deadline - time.monotonic())
        ended = process.poll() is not None
        if remaining_s <= 0 and not ended:
            _kill(process)
            ended = killed = True
        if waiting:
            ready = select.select(list(waiting), [], [], 0 if ended else remaining_s)[0]
            waiting -= {fd for fd in ready if not _feed(fd, sinks[fd])}
            if ended and not ready:
                break
        elif ended:
            break
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, remaining_s))
    _running.discard(process.pid)
    _close(process)
    return killed


def _feed(fd: int, sink: Callable[[bytes], None]) -> bool:
    data = os.read(fd, 65536)
    if data:
        sink(data)
    return bool(data)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()
