"""The difference of two texts of a file, for a plan, in bounded time: the old text is what a node said. Pure."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence

_LONGEST_TEXT = 256 * 1024  # characters: the node program sends no longer one
# Pairs of equal lines, each of which difflib may look at several times: 12 million took half a minute, these 0.2 s.
_MOST_PAIRS = 200_000
_POPULAR_FROM = 200  # lines: in a text of so many difflib passes over lines that are more than a hundredth of it


def file_diff(old: str, new: str) -> Iterator[str]:
    """Yield the lines of a unified diff, or one line that says why there is none."""
    before, after = old.splitlines(), new.splitlines()
    if len(old) > _LONGEST_TEXT or _pairs(before, after) > _MOST_PAIRS:
        yield f"({len(before)} lines on the node, {len(after)} wanted: too long, or too many alike, to be compared)"
        return
    yield from difflib.unified_diff(before, after, "on the node", "wanted", lineterm="", n=2)


def _pairs(before: Sequence[str], after: Sequence[str]) -> int:
    counts = Counter(after)
    most = len(after) // 100 + 1 if len(after) >= _POPULAR_FROM else len(after)
    return sum(counts[line] for line in before if counts[line] <= most)
