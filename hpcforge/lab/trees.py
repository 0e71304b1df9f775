"""Removing directory trees, many files at a time."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_AT_ONCE = 32  # measured: 2,000 files in 0.7 s, where one at a time takes 6.9 s and eight 1.2 s


def remove_tree(directory: Path) -> None:
    """Remove a directory and all that is in it; nothing may change in it meanwhile.

    A file system that is mounted with `discard` tells the disk of each freed block and waits for the answer: some
    milliseconds a file, of which a node's disk has tens of thousands. So they are removed in parallel.

    Raises:
        OSError: something in it cannot be removed; `FileNotFoundError` if it is not there.
    """
    files: list[str] = []
    by_depth: dict[int, list[str]] = defaultdict(list)
    for here, folders, names in os.walk(directory, onerror=_raise):
        by_depth[here.count(os.sep)].append(here)
        links = (name for name in folders if Path(here, name).is_symlink())
        files += [f"{here}/{name}" for name in (*names, *links)]
    _each(os.unlink, files)
    for depth in sorted(by_depth, reverse=True):
        _each(os.rmdir, by_depth[depth])


def _each(remove: Callable[[str], None], paths: list[str]) -> None:
    def share(first: int) -> None:
        for path in paths[first::_AT_ONCE]:
            remove(path)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(share, range(_AT_ONCE)))


def _raise(error: OSError) -> None:
    raise error
