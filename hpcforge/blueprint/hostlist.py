"""Hostlists: `head,gpu[001-032]` for many names, `10.20.0.[11-42]` for many addresses.

Text is matched against a strict pattern and its size is counted before ClusterShell sees it: by default ClusterShell
asks external programs about `@group` names, and expands `n[1-1000000000]` in memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from math import prod

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

MAX_NAMES = 131_072  # more than any cluster has nodes

_RANGE = r"[0-9]{1,18}(?:-[0-9]{1,18})?"
_PLAIN = re.compile(r"[a-z0-9.-]+")
_PART = re.compile(rf"(?:[a-z0-9.-]+|\[{_RANGE}(?:,{_RANGE})*\])+")
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,18})")
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[]*\])")


class HostlistError(ValueError):
    """Text that is no hostlist. `hint` says what to write instead."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def expand(text: str) -> tuple[str, ...]:
    """Return the names in the order written. Raises `HostlistError`; never runs or reads anything."""
    if _PLAIN.fullmatch(text):  # by far the most frequent: one name
        return (text,)
    parts = _COMMA_OUTSIDE_BRACKETS.split(text)
    for part in parts:
        _check_characters(part, text)
    size = sum(_size(part) for part in parts)
    if size > MAX_NAMES:
        raise HostlistError(f"stands for {size:,} names; at most {MAX_NAMES:,} are allowed")
    names = [name for part in parts for name in _expand_part(part)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise HostlistError(f"names {fold(twice)} twice")
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """Return the shortest hostlist for names that `expand` or the schema has let through; sorted, "" for none."""
    return str(NodeSet.fromlist(_ranges(names), resolver=RESOLVER_NOGROUP))


def _ranges(names: Iterable[str]) -> list[str]:
    """Names that count up by one as one range each, `gpu[001-032]`: ClusterShell takes 20 us a name otherwise."""
    runs: list[list[str]] = []
    before, number, width, follows = "", 0, 0, ""
    for name in names:
        if name == follows and len(name) == len(runs[-1][0]):
            runs[-1].append(name)
            number += 1
        else:
            runs.append([name])
            match = _LAST_NUMBER.fullmatch(name)
            before, number, width = (match[1], int(match[2]), len(match[2])) if match else (name, 0, 0)
        follows = f"{before}{number + 1:0{width}}" if width else ""
    return [_range(run[0], run[-1]) for run in runs]


def _range(first: str, last: str) -> str:
    match = _LAST_NUMBER.fullmatch(first)
    return f"{match[1]}[{match[2]}-{last[len(match[1]) :]}]" if match and last != first else first


def _check_characters(part: str, text: str) -> None:
    if _PART.fullmatch(part):
        return
    if not part:
        raise HostlistError("has an empty part", "separate names by single commas, with no spaces")
    if part != part.lower() and _PART.fullmatch(part.lower()):
        raise HostlistError("has upper-case letters", f"names are lower-case: {text.lower()}")
    if "@" in part:
        raise HostlistError("uses `@`", "groups have no `@` here: write the names, or the name of a group alone")
    raise HostlistError(
        "is neither a name nor a hostlist",
        "write names of lower-case letters, digits and hyphens, and ranges like gpu[001-032], separated by commas",
    )


def _size(part: str) -> int:
    return prod(_count(brackets) for brackets in _BRACKETS.findall(part))


def _count(brackets: str) -> int:
    """Count what brackets stand for; their numbers must ascend, so that expansion keeps the order written."""
    last = -1
    count = 0
    for item in brackets.split(","):
        first, _, end = item.partition("-")
        end = end or first
        if int(first) <= last or int(end) < int(first):
            raise HostlistError(f"has numbers that do not ascend: [{brackets}]")
        last = int(end)
        count += last - int(first) + 1
    widths = {len(number) for number in re.findall("[0-9]+", brackets)}
    if re.search(r"(?:^|[,-])0[0-9]", brackets) and len(widths) > 1:
        raise HostlistError(f"mixes padded and unpadded numbers: [{brackets}]", "write [08-12], not [08-9] or [8-012]")
    return count


def _expand_part(part: str) -> Iterable[str]:
    return NodeSet(part, resolver=RESOLVER_NOGROUP) if "[" in part else (part,)
