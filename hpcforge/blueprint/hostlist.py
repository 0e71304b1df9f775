"""Hostlists: `head,gpu[001-032]` for many names, `10.20.0.[11-42]` for many addresses.

Text may come from anybody: it is matched against a strict pattern, in time that grows with its length and no faster,
and what it stands for is counted before it is expanded. ClusterShell only folds, and only names: by default it asks
external programs about `@group`, and it takes half a minute to fold 4,000 names with three numbers each. It is imported
only then: most commands fold nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product

from hpcforge.errors import ExpectedError

MAX_NAMES = 131_072  # names of a hostlist, nodes of a blueprint: more than any cluster has; 0.2 s and 20 MiB to expand
_MAX_CHARACTERS = 253  # length of a name with expanded brackets: the limit of DNS

_UNCOUNTED = 10**12
_MANY_NUMBERS = 100  # names with several numbers that ClusterShell folds in an instant

_RANGE = r"[0-9]{1,18}(?:-[0-9]{1,18})?"
_PLAIN = re.compile(r"[a-z0-9.-]+")
_PART = re.compile(rf"(?:[a-z0-9.-]++|\[{_RANGE}(?:,{_RANGE})*+\])++")
_COMMA_OR_BRACKETS = re.compile(r",|\[[^\]]*+")
_BRACKETS = re.compile(r"\[([^\[\]]*+)\]")
_LIKE_BRACKETS = str.maketrans("(){}", "[][]")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,18})")
_NUMBERS = re.compile("([0-9]+)")
_PADDED_OR_LONG = re.compile(r"[\[,]0[0-9]|[0-9]{19}")


class HostlistError(ExpectedError, ValueError):
    """Text that is no hostlist; the message completes a sentence that begins with the text."""

    kind = "invalid"


def expand(text: str) -> tuple[str, ...]:
    """Return the names in the order written. Raises `HostlistError`; never runs or reads anything."""
    return (text,) if _PLAIN.fullmatch(text) else _expanded(text)  # the most frequent case: one name


@lru_cache(maxsize=64)  # several parts of a blueprint have the same hostlist, of thousands of names
def _expanded(text: str) -> tuple[str, ...]:
    parts = _parts(text)
    for part in parts:
        _check_characters(part)
    size = sum(_size(part) for part in parts)
    if size > MAX_NAMES:
        shown = f"{size:,}" if size < _UNCOUNTED else f"{_UNCOUNTED:,} or more"
        raise HostlistError(f"expands to {shown} names; at most {MAX_NAMES:,} are allowed")
    names = [name for part in parts for name in _expand_part(part)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise HostlistError(f"names {fold(twice)} twice")
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """Return a short hostlist of valid names, sorted; "" for none."""
    text = _shortest(_ranges(names))
    return ",".join(_expandable(_parts(text))) if _PADDED_OR_LONG.search(text) else text


def _expandable(parts: Iterable[str]) -> Iterator[str]:
    """Yield parts that `expand` accepts: names with numbers of different widths are separate, `c1,c[01-02]`."""
    for part in parts:
        if _is_expandable(part):
            yield part
            continue
        by_width: dict[tuple[int, ...], list[str]] = {}
        names = list(_expand_part(part))
        for name in names:
            by_width.setdefault(tuple(map(len, _NUMBERS.findall(name))), []).append(name)
        hostlists = [hostlist for group in by_width.values() for hostlist in _parts(_shortest(group))]
        yield from hostlists if all(map(_is_expandable, hostlists)) else names


def _is_expandable(part: str) -> bool:
    try:
        return _PART.fullmatch(part) is not None and _size(part) > 0
    except HostlistError:
        return False


def _shortest(ranges: list[str]) -> str:
    several = [text for text in ranges if len(_NUMBERS.findall(text.partition("[")[0])) > 1]
    if len(several) > _MANY_NUMBERS:
        return ",".join(_products(ranges))
    by_pattern = {_pattern(text): text for text in ranges}
    if len(by_pattern) < len(ranges):
        return _folded(ranges)
    return ",".join(by_pattern[pattern] for pattern in sorted(by_pattern))  # no two names can be folded


def _pattern(text: str) -> str:
    """Return a name or a range with `%s` for each number: names fold, and are sorted, by this."""
    stem, bracket, _ = text.partition("[")
    return _NUMBERS.sub("%s", stem) + ("%s" if bracket else "")


def _folded(texts: Iterable[str]) -> str:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet  # noqa: PLC0415

    return str(NodeSet.fromlist(list(texts), resolver=RESOLVER_NOGROUP))


def _products(hostlists: Iterable[str]) -> Iterator[str]:
    """Yield hostlists of names with several numbers: fewer than of the names one by one, if not always the fewest."""
    rows_by_text: dict[tuple[str, ...], list[tuple[str, ...]]] = {}  # rows of numbers, by the text between them
    for text in hostlists:
        for name in _expand_part(text):
            pieces = _NUMBERS.split(name)
            rows_by_text.setdefault(tuple(pieces[::2]), []).append(tuple(pieces[1::2]))
    for between, rows in sorted(rows_by_text.items()):
        for numbers in _from_the_last(rows):
            yield between[0] + "".join(map("".join, zip(numbers, between[1:], strict=True)))


def _from_the_last(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Fold the last numbers of rows that are alike before them; then the number before, where the last folded alike."""
    if not rows[0]:
        return [()]
    last: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        last.setdefault(row[:-1], []).append(row[-1])
    before: dict[str, list[tuple[str, ...]]] = {}
    for head, numbers in last.items():
        before.setdefault(_folded(numbers), []).append(head)
    return [(*head, numbers) for numbers, heads in before.items() for head in _from_the_last(heads)]


def _ranges(names: Iterable[str]) -> list[str]:
    """Return names with consecutive numbers as ranges, `gpu[001-032]`: ClusterShell needs 20 us for each name."""
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


def _parts(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, start = [], 0
    for match in _COMMA_OR_BRACKETS.finditer(text):
        if match[0] == ",":
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def _check_characters(part: str) -> None:
    if _PART.fullmatch(part):
        return
    if not part:
        raise HostlistError("has an empty part", "separate names by single commas, with no spaces")
    if part != part.lower() and _PART.fullmatch(part.lower()):
        raise HostlistError("has upper-case letters", f"names are lower-case: {part.lower()}")
    if "@" in part:
        raise HostlistError("uses `@`", "`@` is not used here: write the names, or the name of a group")
    if " " in part:
        raise HostlistError("has a space in it", "separate names by single commas, with no spaces: a01,a02")
    guess = re.sub("\\.\\.+|:", "-", part.translate(_LIKE_BRACKETS)).replace("_", "-")
    if _PART.fullmatch(guess):
        raise HostlistError("is neither a name nor a hostlist", f"did you mean `{guess}`?")
    raise HostlistError(
        "is neither a name nor a hostlist",
        "write names of lower-case letters, digits and hyphens, and ranges like gpu[001-032], separated by commas",
    )


def _size(part: str) -> int:
    """Count the names a part stands for, up to a trillion: a number of many digits takes long to multiply and print."""
    size = 1
    pieces = _BRACKETS.split(part)  # text and content of brackets, in turn
    if len(pieces) > 1 and sum(map(len, pieces[::2])) + len(pieces) // 2 > _MAX_CHARACTERS:
        raise HostlistError(f"expands to names longer than {_MAX_CHARACTERS} characters")
    for brackets in pieces[1::2]:
        size = min(size * _count(brackets), _UNCOUNTED)
    return size


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


def _expand_part(part: str) -> Iterator[str]:
    """Yield the names of a part, the last brackets counting fastest."""
    pieces = _BRACKETS.split(part)  # text, content of brackets, text, ...
    choices = [_numbers(piece) if index % 2 else (piece,) for index, piece in enumerate(pieces)]
    return map("".join, product(*choices))


def _numbers(brackets: str) -> list[str]:
    """Expand the numbers in brackets, as wide as the first one where that is padded."""
    items = [item.partition("-") for item in brackets.split(",")]
    return [f"{number:0{len(first)}}" for first, _, end in items for number in range(int(first), int(end or first) + 1)]
