"""Types of what goes over the wire, beyond what Python's own say. Standard library and Python 3.9 syntax."""

from __future__ import annotations

from typing import Annotated, NamedTuple


class Within(NamedTuple):
    """A number from `low` to `high`."""

    low: float
    high: float


class Line(NamedTuple):
    """Text of one line that can be printed as it is, of at most so many characters."""

    most: int


Word = Annotated[str, Line(300)]  # a role, unit, package, state, version, user@host
Path = Annotated[str, Line(4096)]
Count = Annotated[int, Within(0, 2**53)]
