"""Ranges of versions and words, as compatibility.yaml has them. Pure."""

from __future__ import annotations

import re
from functools import cache

_LEADING_NUMBERS = re.compile(r"[0-9]+(?:[.-][0-9]+)*")


def within(value: str, wanted: str) -> bool:
    """Tell whether a value is in a range, `same as` excepted.

    Of a version the leading numbers count, as of 6.1.0-40-amd64, compared one by one: 570.124 is before 570.124.6.
    """
    if wanted == "any":
        return True
    if wanted[0] not in "<>":
        return value in wanted.split(" | ")
    return all(
        numbers(value) >= numbers(bound[2:]) if bound.startswith(">=") else numbers(value) < numbers(bound[1:])
        for bound in wanted.split(", ")
    )


@cache
def numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with, none if it begins with something else."""
    match = _LEADING_NUMBERS.match(version)
    return tuple(map(int, re.split("[.-]", match[0]))) if match else ()
