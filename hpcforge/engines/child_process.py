"""The child process that holds all connections (`child`): its start, and the message when it dies.

Its libraries take it a third of a second to import. A command that will surely need it begins it before it imports its
own, so that the two go side by side.
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
    """The child; `stdin` and `stdout` are pipes, what it writes to stderr is kept for its last words."""

    def __init__(self) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - kept as long as the process
        self.popen: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-P", "-m", "hpcforge.engines.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # no terminal to ask on, and Ctrl-C is ours to handle
        )

    def last_words(self) -> str:
        """Return the last line that it wrote to stderr."""
        try:
            self._log.seek(0)
            lines = self._log.read()[-4096:].decode(errors="replace").split("\n")
        except ValueError:  # closed by another thread
            return "it was closed"
        return next((line.strip() for line in reversed(lines) if line.strip()), "without a word")

    def close(self, deadline: float) -> None:
        """End it by that time, of `time.monotonic`."""
        assert self.popen.stdin is not None
        with contextlib.suppress(OSError):
            self.popen.stdin.close()  # which is what it ends at
        for end in (self.popen.terminate, self.popen.kill):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(max(0.2, deadline - time.monotonic()))
                break
            end()
        self.popen.wait()
        self._log.close()


_begun: list[ChildProcess] = []  # at most one, that nobody has taken yet


def begin() -> None:
    """Start one for the `take` that will come. Without one it ends with this process."""
    with contextlib.suppress(OSError):  # a full disk, say: `take` will meet it again, where it can be told
        _begun.append(ChildProcess())
        atexit.register(_dismiss)


def take() -> ChildProcess:
    """Return the process that was begun, or a new one."""
    return _begun.pop() if _begun else ChildProcess()


def _dismiss() -> None:
    for process in _begun:
        process.popen.kill()
        process.close(time.monotonic())
