"""The child process that holds all connections (`child`): its start, and the message when it dies.

It imports its libraries in a third of a second. A command that will need it starts it before its own imports, so that
both run in parallel.
"""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import sys
import tempfile
import time
from typing import IO


class ChildProcess:
    """The child; `stdin` and `stdout` are pipes, its stderr is kept for its last message."""

    def __init__(self) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - kept as long as the process
        self.popen: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-P", "-m", "hpcforge.engines.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # no terminal for prompts, and hpcforge handles Ctrl-C
        )

    def last_words(self) -> str:
        """Return the last line that it wrote to stderr."""
        try:
            self._log.seek(0)
            lines = self._log.read()[-4096:].decode(errors="replace").split("\n")
        except ValueError:  # closed by another thread
            return "it was closed"
        return next((line.strip() for line in reversed(lines) if line.strip()), "without output")

    def close(self, deadline: float) -> None:
        """End it by that time, of `time.monotonic`."""
        assert self.popen.stdin is not None
        with contextlib.suppress(OSError):
            self.popen.stdin.close()  # the child ends at the end of its input
        for end in (self.popen.terminate, self.popen.kill):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(max(0.2, deadline - time.monotonic()))
                break
            end()
        self.popen.wait()
        self._log.close()


_begun: list[ChildProcess] = []  # at most one, not taken yet


def begin() -> None:
    """Start one for a later `take`. Without a `take` it ends with this process."""
    with contextlib.suppress(OSError):  # such as a full disk: `take` will fail again, and report it
        _begun.append(ChildProcess())
        atexit.register(_dismiss)


def take() -> ChildProcess:
    """Return the started process, or a new one."""
    return _begun.pop() if _begun else ChildProcess()


def _dismiss() -> None:
    for process in _begun:
        process.popen.kill()
        process.close(time.monotonic())
