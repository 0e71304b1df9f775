"""Write files to the storage that jobs use, read those of the next node, and compare every byte.

    python3 smoke_tests/storage/storage.py --launch write --scratch /tmp/here
    python3 smoke_tests/storage/storage.py --launch read --scratch /tmp/here

In the launch `write` each node writes a large file in order, synced, and many small ones. In `read` it reads those of
the next node, by name: they are not in its own page cache. The large file is read in order, and at random places by
four threads, as data loaders read samples. Each page has its number and its node's name, so exchanged pages show.

Where the scratch folder is on storage that all nodes mount, the files of every node must be there. Where it is each
node's own, a node reads its own files, dropped from the page cache first. What servers keep in memory is read from
there: a size above it measures drives. All nodes together may write half of the folder's free space.

Where the design gives each client a share of the storage's throughput, reading and writing in order must reach 0.8 of
it: all nodes are active at once. Standard library alone, Python 3.9.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MIB = 1 << 20
PAGE = 4096
SAMPLE = 128 * 1024
THREADS = 4
PART_MIB = 16  # that are made before they are written, outside of the timing
OF_SHARE = 0.8


class DifferentError(Exception):
    """What was read is not what was written: where, what was expected, what was there."""


class NoRoomError(Exception):
    """The folder's file system has too little free space: the message."""


class Content:
    """What a node writes: pages of random bytes, each with its number."""

    def __init__(self, name: str) -> None:
        self.name = name
        digest = hashlib.sha256(name.encode()).digest()
        self.base = random.Random(digest).randbytes(MIB)  # noqa: S311

    def block(self, number: int) -> bytearray:
        """The MiB of a number."""
        made = bytearray(self.base)
        for page in range(MIB // PAGE):
            struct.pack_into("<Q", made, page * PAGE, number * (MIB // PAGE) + page)
        return made

    def small(self, number: int) -> bytes:
        """The small file of a number."""
        return bytes(self.block(number)[number % 200 * PAGE : (number % 200 + 1) * PAGE])


def compare(what: str, expected: bytes, got: bytes) -> None:
    """Raise DifferentError with the first byte that differs."""
    if expected == got:
        return
    if len(expected) != len(got):
        raise DifferentError(f"size of {what}, bytes", len(expected), len(got))
    at = next(index for index, byte in enumerate(expected) if byte != got[index])
    raise DifferentError(f"byte {at} of {what}", expected[at], got[at])


def write(folder: Path, content: Content, size_mib: int, files: int) -> dict[str, float]:
    """Write the large file and the small ones; the rates."""
    took = 0.0
    with (folder / f"{content.name}.data").open("wb", buffering=0) as file:
        for first in range(0, size_mib, PART_MIB):
            part = b"".join(content.block(number) for number in range(first, min(first + PART_MIB, size_mib)))
            began, at = time.perf_counter(), 0
            while at < len(part):  # a write may be short
                at += file.write(memoryview(part)[at:])
            took += time.perf_counter() - began
        began = time.perf_counter()
        os.fsync(file.fileno())
        took += time.perf_counter() - began
    small = folder / f"{content.name}.small"
    small.mkdir()
    texts = [content.small(number) for number in range(files)]
    began = time.perf_counter()
    for number, text in enumerate(texts):
        (small / f"{number}").write_bytes(text)
    made = files / (time.perf_counter() - began)
    return {"write_mb_per_s": size_mib * MIB / took / 1e6, "files_made_per_s": made}


def _forget(file: int) -> None:
    """Drop a file from this node's page cache, as far as the kernel will."""
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def read_large(path: Path, content: Content, size_mib: int) -> float:
    """Read a file in order, then compare it in a second pass; MB/s of the whole first pass."""
    room = memoryview(bytearray(MIB))
    with path.open("rb", buffering=0) as file:
        _forget(file.fileno())
        left, began = size_mib * MIB, time.perf_counter()
        while left:  # a read may be short
            count = file.readinto(room[:left])
            if not count:
                raise DifferentError(
                    f"size of the file of {content.name}, bytes", size_mib * MIB, size_mib * MIB - left
                )
            left -= count
        took = time.perf_counter() - began
    with path.open("rb") as file:
        for number in range(size_mib):
            compare(f"MiB {number} of the file of {content.name}", content.block(number), file.read(MIB))
        _forget(file.fileno())
    return size_mib * MIB / took / 1e6


def read_at_random(path: Path, content: Content, size_mib: int, samples: int) -> float:
    """Read samples at random places with several threads and compare them; MB/s of all threads together."""
    places = [random.randrange(size_mib * MIB // SAMPLE) * SAMPLE for _ in range(samples)]  # noqa: S311
    got: list[bytes] = [b""] * samples
    failed: list[OSError] = []

    def read(first: int) -> None:
        try:
            with path.open("rb", buffering=0) as file:
                for number in range(first, samples, THREADS):
                    got[number] = os.pread(file.fileno(), SAMPLE, places[number])
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(THREADS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if failed:
        raise failed[0]
    for number, place in enumerate(places):
        block, within = divmod(place, MIB)
        expected = content.block(block)[within : within + SAMPLE]
        compare(f"the sample at {place} of the file of {content.name}", expected, got[number])
    return samples * SAMPLE / took / 1e6


def read_small(folder: Path, content: Content, files: int) -> float:
    """Read the small files, remove them, and compare them; files/s read."""
    began = time.perf_counter()
    got = [(folder / f"{number}").read_bytes() for number in range(files)]
    rate = files / (time.perf_counter() - began)
    for number in range(files):
        (folder / f"{number}").unlink()
    for number, text in enumerate(got):
        compare(f"small file {number} of {content.name}", content.small(number), text)
    return rate


def nodes_of(mount: Mapping[str, Any] | None) -> int:
    """The number of nodes that share the folder."""
    return int(os.environ.get("SLURM_JOB_NUM_NODES", "1")) if mount is not None and mount["shared"] else 1


def check_room(folder: Path, nodes: int, size_mib: int, files: int) -> None:
    """Raise NoRoomError if nodes would write more than half of the free space of the folder's file system."""
    found = os.statvfs(folder)
    of_others = sum(path.stat().st_size for path in folder.glob("*.data"))  # nodes that have begun already
    free_mib = (found.f_bavail * found.f_frsize + of_others) // MIB
    needed_mib = nodes * (size_mib - -files * PAGE // MIB)
    if needed_mib > free_mib / 2:
        text = f"{nodes} node(s) would write {needed_mib} MiB to {folder}, more than half of the {free_mib} MiB free"
        raise NoRoomError(f"{text}: set a smaller size_mib")


def next_node(folder: Path, here: str, nodes: int) -> str:
    """The node whose files this one reads. Raises DifferentError if not all of `nodes` have written."""
    names = sorted(path.name[: -len(".data")] for path in folder.glob("*.data"))
    if here not in names or len(names) < nodes:
        raise DifferentError(f"files of nodes in {folder}", nodes, f"those of {', '.join(names) or 'none'}")
    return names[(names.index(here) + 1) % len(names)]


def mount_of(folder: str, declared: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the blueprint declares of the storage that has a folder; None: nothing."""
    found = [mount for mount in declared["mounts"] if f"{folder}/".startswith(f"{mount['path'].rstrip('/')}/")]
    return max(found, key=lambda mount: len(mount["path"]), default=None)


def shortfalls(rates: Mapping[str, float], mount: Mapping[str, Any] | None) -> Iterator[tuple[str, float, float]]:
    """Rates beside the designed share of a client: name, share and rate, MB/s; none where the design has none."""
    for direction in ("read", "write"):
        share = (mount or {}).get(f"{direction}_gb_per_s")
        if share is not None and f"{direction}_mb_per_s" in rates:
            yield f"{direction} rate, MB/s", share * 1e3, rates[f"{direction}_mb_per_s"]


def say(as_json: bool, line: str, **event: object) -> None:
    """One event, as a line of JSON or of text."""
    if as_json or line:
        print(json.dumps(event) if as_json else line, flush=True)


def judged(as_json: bool, rates: Mapping[str, float], mount: Mapping[str, Any] | None) -> bool:
    """Report the rates; whether each reaches its part of the designed share."""
    say(as_json, ", ".join(f"{name} {rate:.1f}" for name, rate in rates.items()), event="measurement", **rates)
    right = True
    for what, share, rate in shortfalls(rates, mount):
        error = max(0.0, 1 - rate / share)
        compared = {"expected": round(share, 1), "got": rate, "error": error, "tolerance": 1 - OF_SHARE}
        say(as_json, "", event="assertion", what=what, **compared)
        if error > 1 - OF_SHARE:
            right = False
            expected = f"{OF_SHARE * share:.1f}, {OF_SHARE:g} of the designed share"
            say(as_json, f"wrong: {what}: {rate:.1f}", event="wrong", where=what, expected=expected, got=f"{rate:.1f}")
    return right


def carry_out(asked: argparse.Namespace, mount: Mapping[str, Any] | None, here: str) -> dict[str, float]:
    """The launch that was asked for; the rates. Raises DifferentError and OSError."""
    folder = Path(asked.scratch)
    nodes = nodes_of(mount)
    if asked.launch == "write":
        check_room(folder, nodes, asked.size_mib, asked.files)
        rates = write(folder, Content(here), asked.size_mib, asked.files)
    else:
        content = Content(next_node(folder, here, nodes))
        data = folder / f"{content.name}.data"
        if asked.falsify:
            with data.open("r+b") as file:
                file.seek(MIB // 2)
                file.write(b"\xff\x00")
        rates = {"files_read_per_s": read_small(folder / f"{content.name}.small", content, asked.files)}
        rates["read_mb_per_s"] = read_large(data, content, asked.size_mib)
        rates["random_mb_per_s"] = read_at_random(data, content, asked.size_mib, asked.samples)
    return {name: round(rate, 1) for name, rate in rates.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """One of the launches; 0 if every byte is right, 3 if not, 1 if a file could not be written or read."""
    options = argparse.ArgumentParser(description="Files written on one node are read right on another; rates.")
    options.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    options.add_argument("--launch", choices=("write", "read"), required=True, help="which launch this is")
    options.add_argument("--scratch", required=True, help="the folder that the launches share")
    options.add_argument("--size-mib", type=int, default=256, help="size of the large file, MiB (default: 256)")
    options.add_argument("--files", type=int, default=500, help="small files (default: 500)")
    options.add_argument("--samples", type=int, default=400, help="samples at random places (default: 400)")
    options.add_argument("--falsify", action="store_true", help="for testing this test: spoil a file before reading")
    beside = Path(__file__).with_name("declared.json")
    options.add_argument("--declared", type=Path, default=beside, help="what is declared (default: declared.json here)")
    asked = options.parse_args(arguments)
    here = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    try:
        declared = json.loads(asked.declared.read_text()) if asked.declared.exists() else {"mounts": []}
        mount = mount_of(asked.scratch, declared)
        if not judged(asked.json, carry_out(asked, mount, here), mount):
            return 3
    except DifferentError as error:
        where, expected, got = error.args
        line = f"wrong: {where}: expected {expected}, got {got}"
        say(asked.json, line, event="wrong", where=where, expected=str(expected), got=str(got))
        return 3
    except (OSError, NoRoomError) as error:
        say(asked.json, f"failed: {error}", event="failed", error=str(error))
        return 1
    say(asked.json, "every byte is right", event="result")
    return 0


if __name__ == "__main__":
    sys.exit(main())
