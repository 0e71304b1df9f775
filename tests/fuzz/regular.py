"""Regular expressions, taken apart as Python's own parser does: strings that match them, and strings that repeat."""

from __future__ import annotations

import random
from collections.abc import Iterator
from re import _constants as op  # no other way to see what the engine will run
from re import _parser as parser
from typing import Any

Parsed = list[tuple[Any, Any]]
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
_OF_CATEGORY = {
    op.CATEGORY_DIGIT: "7", op.CATEGORY_NOT_DIGIT: "x", op.CATEGORY_SPACE: " ", op.CATEGORY_NOT_SPACE: "x",
    op.CATEGORY_WORD: "w", op.CATEGORY_NOT_WORD: "-",
}  # fmt: skip


def matching(pattern: str, dice: random.Random, most: int = 6) -> str:
    """A string that a pattern without look-around matches; what repeats for ever repeats at most so many times more."""
    return "".join(_text(parser.parse(pattern), dice, most))


def repeats(pattern: str, flags: int = 0) -> Iterator[tuple[str, Parsed]]:
    """Every part that may repeat more than ten times: a string that leads to it, and what is repeated."""
    yield from _repeats(list(parser.parse(pattern, flags)), "")


def characters(parsed: Parsed) -> set[str]:
    """Some characters that occur in what is matched, one at least of each class."""
    found: set[str] = set()
    for code, argument in parsed:
        if code is op.LITERAL:
            found.add(chr(argument))
        elif code is op.NOT_LITERAL:
            found.add(_other_than({argument}))
        elif code is op.ANY:
            found |= {"x", " "}
        elif code is op.IN:
            found |= set(_of_class(argument))
        else:
            for inner in _inside(code, argument):
                found |= characters(inner)
    return found


def shortest(parsed: Parsed) -> str:
    """A string that is matched, repeating as little as may be."""
    dice = random.Random(0)
    return "".join(_text(parsed, dice, 0))


def _repeats(parsed: Parsed, before: str) -> Iterator[tuple[str, Parsed]]:
    for code, argument in parsed:
        if code in _REPEATS and argument[1] > 10:
            yield before, list(argument[2])
        for inner in _inside(code, argument):
            yield from _repeats(inner, before)
        before += shortest([(code, argument)])


def _inside(code: Any, argument: Any) -> list[Parsed]:
    if code in _REPEATS:
        return [list(argument[2])]
    if code is op.SUBPATTERN:
        return [list(argument[3])]
    if code is op.ATOMIC_GROUP:
        return [list(argument)]
    if code is op.BRANCH:
        return [list(branch) for branch in argument[1]]
    if code in (op.ASSERT, op.ASSERT_NOT):
        return [list(argument[1])]
    return []


def _text(parsed: Any, dice: random.Random, most: int) -> Iterator[str]:
    for code, argument in parsed:
        if code is op.LITERAL:
            yield chr(argument)
        elif code in (op.NOT_LITERAL, op.ANY, op.IN):
            yield dice.choice(sorted(characters([(code, argument)])))
        elif code in _REPEATS:
            lowest, highest, inner = argument
            for _ in range(dice.randint(lowest, min(highest, lowest + most))):
                yield from _text(inner, dice, most)
        elif code is op.BRANCH:
            yield from _text(dice.choice(argument[1]), dice, most)
        elif code not in (op.ASSERT, op.ASSERT_NOT):
            for inner in _inside(code, argument):
                yield from _text(inner, dice, most)


def _of_class(items: Any) -> Iterator[str]:
    if items[0][0] is op.NEGATE:
        yield from {_other_than({code for item in items[1:] for code in _codes(item)}), "x"} - set(
            map(chr, (code for item in items[1:] for code in _codes(item)))
        )
        return
    for item in items:
        codes = _codes(item)
        yield from {chr(codes[0]), chr(codes[-1]), chr(codes[len(codes) // 2])}


def _codes(item: tuple[Any, Any]) -> range | list[int]:
    code, argument = item
    if code is op.RANGE:
        return range(argument[0], argument[1] + 1)
    return [argument] if code is op.LITERAL else [ord(_OF_CATEGORY[argument])]


def _other_than(codes: set[int]) -> str:
    return next(c for c in "x0 -:,.\"'_\nA]\x00" if ord(c) not in codes)
