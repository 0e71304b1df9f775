"""A machine's disk with a write cache that is lost with the power: what the machine has not flushed never was.

    QEMU --NBD--> nbdkit, filter cache --NBD--> qemu-nbd --> the machine's qcow2

With `cache=writeback` nbdkit keeps what is written to itself, in a file without a name, and hands it on when the client
flushes, or forces a write through; nothing else does (nbdkit-cache-filter(1)). Killed, it has lost the rest.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hpcforge.host import processes

WAIT_S = 60


@dataclass
class CachedDisk:
    """What stands between a machine and the file of its disk. Sockets and cache are in `folder`."""

    file: Path
    folder: Path
    serving: list[subprocess.Popen[bytes]] = field(default_factory=list)  # what has the file, and the cache

    @property
    def address(self) -> str:
        """As QEMU's programs take it."""
        return f"nbd+unix:///?socket={self.folder / 'cache'}"

    @property
    def drive(self) -> str:
        """As QEMU's option takes it: the machine is told that there is a write cache."""
        return f"file={self.address},if=virtio,format=raw,cache=writeback"

    def begin(self) -> None:
        """Serve it, with an empty cache."""
        assert self.serving == []
        # This host keeps its power, so that the file need not be synced here each time that the machine flushes.
        into = ("--format=qcow2", "--cache=unsafe", f"--socket={self.folder / 'file'}", str(self.file))
        self._serve("file", "qemu-nbd", *into)
        behind = ("nbd", f"socket={self.folder / 'file'}", "cache=writeback")
        self._serve("cache", "nbdkit", "--foreground", f"--unix={self.folder / 'cache'}", "--filter=cache", *behind)

    def lose_power(self, machine: int) -> None:
        """The machine (its process) and the cache end; what was handed on is in the file."""
        file, cache = self.serving
        os.kill(machine, signal.SIGSTOP)  # or it would see its disk go, for some milliseconds
        cache.kill()
        cache.wait()
        os.kill(machine, signal.SIGKILL)
        assert file.wait(WAIT_S) == 0  # its one client has gone
        self.serving.clear()

    def end(self) -> None:
        """No longer serve it."""
        for process in reversed(self.serving):
            process.kill()
            process.wait()
        self.serving.clear()

    def _serve(self, socket: str, *words: str) -> None:
        path = self.folder / socket
        path.unlink(missing_ok=True)
        env = {**os.environ, "TMPDIR": str(self.folder)}
        process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL)
        self.serving.append(process)
        assert processes.wait_until(lambda: path.exists() or process.poll() is not None, WAIT_S)
        assert process.poll() is None, f"{words[0]} ended with {process.returncode}"


@contextmanager
def cached(file: Path, folder: Path) -> Iterator[CachedDisk]:
    """A disk behind a cache, and nothing of it left."""
    disk = CachedDisk(file, folder)
    try:
        yield disk
    finally:
        disk.end()
