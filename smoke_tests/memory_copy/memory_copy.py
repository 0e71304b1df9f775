"""Memory bandwidth of a node: all its cores copy memory, and what arrived is compared with what was sent.

    python3 smoke_tests/memory_copy/memory_copy.py

A node with a memory module missing or broken, channels that are not all in use, or a clock that was turned down still
runs every job, only slower: it is found by being slower than nodes like it.

Each core that this process may use copies its part of 256 MiB to another 256 MiB, all at once. Bytes read and bytes
written both count, as in STREAM's Copy, for the time of the slowest core; of the repeats within some seconds the
fastest stands, since what else runs can only slow one down. Standard library alone, Python 3.9.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import threading
import time

MIB = 1 << 20
PAGE = 4096


def parts(size: int, count: int) -> list[tuple[int, int]]:
    """Where each of `count` parts of `size` bytes begins and ends, on pages."""
    ends = [size * number // count // PAGE * PAGE for number in range(count)] + [size]
    return [(ends[number], ends[number + 1]) for number in range(count)]


class Copy:
    """Two buffers, and a thread for each core that copies its part from one to the other."""

    def __init__(self, size: int, threads: int) -> None:
        self.size = size
        self.source = bytearray(os.urandom(PAGE) * (size // PAGE))
        self.target = bytearray(size)
        self.parts = parts(size, threads)
        self.begin = threading.Barrier(threads + 1)
        self.end = threading.Barrier(threads + 1)
        self.addresses = tuple(
            ctypes.addressof(ctypes.c_char.from_buffer(buffer)) for buffer in (self.target, self.source)
        )
        for part in self.parts:
            threading.Thread(target=self._work, args=part, daemon=True).start()

    def _work(self, first: int, last: int) -> None:
        target, source = self.addresses
        while True:
            self.begin.wait()
            ctypes.memmove(target + first, source + first, last - first)  # without Python's lock
            self.end.wait()

    def seconds(self) -> float:
        """How long one copy takes, to its slowest part."""
        self.begin.wait()
        start = time.perf_counter()
        self.end.wait()
        return time.perf_counter() - start

    def wrong(self) -> int | None:
        """The first byte that did not arrive, None if all did."""
        if self.source == self.target:
            return None
        return next(index for index in range(self.size) if self.source[index] != self.target[index])


def measure(copy: Copy, seconds: float) -> float:
    """The bandwidth, in 10^9 bytes a second: the fastest repeat within so many seconds."""
    copy.seconds()  # pages are given only when they are written to
    until, fastest = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < until:
        fastest = min(fastest, copy.seconds())
    return 2 * copy.size / fastest / 1e9


def main() -> int:
    """Measure and compare; 0 if every byte arrived, else 3."""
    options = argparse.ArgumentParser(description="Memory bandwidth of this node; every byte copied is compared.")
    options.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    options.add_argument("--size-mib", type=int, default=256, help="MiB that are copied (default: 256)")
    options.add_argument("--seconds", type=float, default=3.0, help="how long is measured (default: 3)")
    options.add_argument("--falsify", action="store_true", help="for testing whoever judges this test")
    asked = options.parse_args()
    threads = len(os.sched_getaffinity(0))
    copy = Copy(asked.size_mib * MIB, threads)
    rate = measure(copy, asked.seconds)
    if asked.falsify:
        copy.target[17] ^= 1
    wrong = copy.wrong()
    if wrong is not None:
        expected, got = copy.source[wrong], copy.target[wrong]
        where = f"byte {wrong} of the copy"
        event = {"event": "wrong", "where": where, "expected": str(expected), "got": str(got)}
        print(json.dumps(event) if asked.json else f"wrong: {where}: expected {expected}, got {got}")
        return 3
    if asked.json:
        print(json.dumps({"event": "measurement", "copy_gb_per_s": round(rate, 3), "threads": threads}))
        print(json.dumps({"event": "result"}))
    else:
        print(f"{rate:.1f} GB/s with {threads} threads; every byte arrived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
