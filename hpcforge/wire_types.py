"""Types of what goes over the wire, beyond what Python's own say. Standard library."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple


class Within(NamedTuple):
    """A number from `low` to `high`."""

    low: float
    high: float


class PrintableLine(NamedTuple):
    """Text of one line that can be printed as it is, of at most so many characters."""

    most: int


class LazyType(NamedTuple):
    """A type that is asked for when there is the first value of it, since to have it costs time."""

    of: Callable[[], Any]


class Absent(NamedTuple):
    """The key of this value may be absent."""


if TYPE_CHECKING:
    from typing import NotRequired as NotRequired  # noqa: PLC0414 - for others, too
else:

    class NotRequired:
        """`typing.NotRequired`, which came with Python 3.11."""

        def __class_getitem__(cls, kind: Any) -> Any:
            """The type, with a mark."""
            return Annotated[kind, Absent()]


Action = Literal["enable", "start", "restart", "refresh"]  # of a unit
Word = Annotated[str, PrintableLine(300)]  # a role, unit, package, state, version, user@host
Path = Annotated[str, PrintableLine(4096)]
Count = Annotated[int, Within(0, 2**53)]

MAX_RUN = 10**9  # a run a second would need thirty years to get there
RunNumber = Annotated[int, Within(0, MAX_RUN)]
TimeS = Annotated[float, Within(0, 1e11)]  # since 1970: up to the year 5138
SpanS = Annotated[float, Within(0, 1e9)]
