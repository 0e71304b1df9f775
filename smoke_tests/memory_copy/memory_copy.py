"""Memory bandwidth of a node: all its cores copy memory, and what arrived is compared with what was sent.

    python3 smoke_tests/memory_copy/memory_copy.py

A node with a memory module missing or broken, channels that are not all in use, or a clock that was turned down still
runs every job, only slower: it is found by being slower than nodes like it.

Each core that this process may use copies its part of one buffer to another, all at once. The buffers hold four times
what the last-level caches hold, as STREAM asks, and 256 MiB at least, as far as the job has memory. Every byte of the
source is random, so what arrives in another place shows. Bytes read and bytes written both count, as in STREAM's Copy,
for the time of the slowest core; of the repeats within some seconds the fastest stands, since what else runs can only
slow one down. Standard library alone, Python 3.9.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

MIB = 1 << 20
PAGE = 4096
FILLED = 64 * PAGE  # random bytes at a time
LEAST = 256 * MIB


class TooLargeError(Exception):
    """Two buffers of the size that was asked for do not fit."""


def last_level_caches(cpus: Iterable[int], sysfs: Path = Path("/sys/devices/system/cpu")) -> int:
    """Bytes of the last-level caches of these CPUs, each cache once; 0 where the kernel does not say."""
    found: dict[str, int] = {}
    for cpu in cpus:
        levels: dict[int, tuple[str, int]] = {}
        for cache in (sysfs / f"cpu{cpu}" / "cache").glob("index*"):
            try:
                level, shared, size = ((cache / name).read_text() for name in ("level", "shared_cpu_list", "size"))
                levels[int(level)] = shared, int(size.strip().rstrip("K")) * 1024
            except (OSError, ValueError):  # a virtual machine may leave out some
                continue
        if levels:
            shared, size_bytes = levels[max(levels)]
            found[shared] = size_bytes
    return sum(found.values())


def room(environment: Mapping[str, str], meminfo: str) -> int:
    """Bytes that both buffers may take: three quarters of the job's memory, and a quarter of what the node has free.

    The nodes of a rehearsal share one machine's memory.
    """
    free = next((int(line.split()[1]) * 1024 for line in meminfo.splitlines() if line.startswith("MemAvailable:")), 0)
    job = int(environment.get("SLURM_MEM_PER_NODE") or 0) * MIB  # 0: all of the node's, or no job of Slurm
    return min(free // 4, job * 3 // 4) if job else free // 4


def buffer_size(asked: int, caches: int, room: int) -> int:
    """Bytes of each buffer. Raises TooLargeError where the asked ones do not fit; 0 asks for what caches call for."""
    if not asked:
        return min(max(LEAST, 4 * caches), max(LEAST // 4, room // 2 // PAGE * PAGE))
    if 2 * asked > room:
        raise TooLargeError(f"two buffers of {asked // MIB} MiB do not fit into the {room // MIB} MiB that may be used")
    return asked


def parts(size: int, count: int) -> list[tuple[int, int]]:
    """Where each of `count` parts of `size` bytes begins and ends, on pages."""
    ends = [size * number // count // PAGE * PAGE for number in range(count)] + [size]
    return [(ends[number], ends[number + 1]) for number in range(count)]


class Copy:
    """Two buffers, and a thread for each core that copies its part from one to the other."""

    def __init__(self, size: int, threads: int) -> None:
        self.size = size
        self.source = bytearray(size)
        self.target = bytearray(size)
        self.parts = parts(size, threads)
        self.begin = threading.Barrier(threads + 1)
        self.end = threading.Barrier(threads + 1)
        self.addresses = tuple(
            ctypes.addressof(ctypes.c_char.from_buffer(buffer)) for buffer in (self.target, self.source)
        )
        self.times = [(0.0, 0.0)] * threads
        for number in range(threads):
            threading.Thread(target=self._work, args=(number,), daemon=True).start()

    def _work(self, number: int) -> None:
        target, source = self.addresses
        first, last = self.parts[number]
        self._fill(first, last)
        while True:
            self.begin.wait()
            start = time.perf_counter()
            ctypes.memmove(target + first, source + first, last - first)  # without Python's lock
            self.times[number] = start, time.perf_counter()
            self.end.wait()

    def _fill(self, first: int, last: int) -> None:
        """Random bytes, made by each thread for its part: one core makes some hundred MB/s."""
        with memoryview(self.source) as view:
            for begin in range(first, last, FILLED):
                end = min(begin + FILLED, last)
                view[begin:end] = os.urandom(end - begin)  # without Python's lock

    def seconds(self) -> float:
        """How long one copy takes: from the first part that begins to the last that ends.

        The parts take these times themselves: where cores are busy, this thread wakes after a part has ended.
        """
        self.begin.wait()
        self.end.wait()
        return max(end for _, end in self.times) - min(start for start, _ in self.times)

    def wrong(self) -> int | None:
        """The first byte that did not arrive, None if all did."""
        if self.source == self.target:
            return None
        begins = range(0, self.size, FILLED)
        there = next(at for at in begins if self.source[at : at + FILLED] != self.target[at : at + FILLED])
        return next(index for index in range(there, self.size) if self.source[index] != self.target[index])


def measure(copy: Copy, seconds: float) -> float:
    """The bandwidth, in 10^9 bytes a second: the fastest repeat within so many seconds."""
    copy.seconds()  # pages are given only when they are written to
    until, fastest = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < until:
        fastest = min(fastest, copy.seconds())
    return 2 * copy.size / fastest / 1e9


def say(as_json: bool, text: str, **event: object) -> None:
    """One event, as a line of JSON or of text."""
    line = json.dumps(event) if as_json else text
    if line:
        print(line, flush=True)


def main() -> int:
    """Measure and compare; 0 if every byte arrived, 3 if not, 1 if the buffers do not fit."""
    options = argparse.ArgumentParser(description="Memory bandwidth of this node; every byte copied is compared.")
    options.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    options.add_argument(
        "--size-mib", type=int, default=0, help="MiB that are copied (default, 0: four times the last-level caches)"
    )
    options.add_argument("--seconds", type=float, default=3.0, help="how long is measured (default: 3)")
    options.add_argument("--falsify", action="store_true", help="for testing whoever judges this test")
    asked = options.parse_args()
    cpus = os.sched_getaffinity(0)
    caches = last_level_caches(cpus)
    try:
        size = buffer_size(asked.size_mib * MIB, caches, room(os.environ, Path("/proc/meminfo").read_text()))
    except TooLargeError as error:
        say(asked.json, f"failed: {error}", event="failed", error=str(error))
        return 1
    copy = Copy(size, len(cpus))
    rate = measure(copy, asked.seconds)
    if asked.falsify:
        copy.target[17] ^= 1
    wrong = copy.wrong()
    if wrong is not None:
        expected, got = copy.source[wrong], copy.target[wrong]
        where = f"byte {wrong} of the copy"
        text = f"wrong: {where}: expected {expected}, got {got}"
        say(asked.json, text, event="wrong", where=where, expected=str(expected), got=str(got))
        return 3
    about = {"size_mib": size // MIB, "caches_mib": round(caches / MIB, 1)}
    text = f"{rate:.1f} GB/s with {len(cpus)} threads and buffers of {size // MIB} MiB; every byte arrived"
    say(asked.json, text, event="measurement", copy_gb_per_s=round(rate, 3), threads=len(cpus), **about)
    say(asked.json, "", event="result")
    return 0


if __name__ == "__main__":
    sys.exit(main())
