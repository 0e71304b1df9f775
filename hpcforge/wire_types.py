"""Types of messages to and from nodes, with limits that Python's own types lack. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple


class Within(NamedTuple):
    """A number from `low` to `high`."""

    low: float
    high: float


class PrintableLine(NamedTuple):
    """Printable text of one line, with at most `most` characters."""

    most: int


class LazyType(NamedTuple):
    """A type that is imported for its first value, since the import takes time."""

    of: Callable[[], Any]


class Absent(NamedTuple):
    """A mark: the key of this value may be absent."""


if TYPE_CHECKING:
    from typing import NotRequired as NotRequired  # noqa: PLC0414 - other modules import it from here
else:

    class NotRequired:
        """`typing.NotRequired`, which came with Python 3.11."""

        def __class_getitem__(cls, kind: Any) -> Any:
            """Return the type, marked as `Absent`."""
            return Annotated[kind, Absent()]


Action = Literal["enable", "start", "restart", "refresh"]  # of a unit
Word = Annotated[str, PrintableLine(300)]  # a role, unit, package, state, version, user@host
Path = Annotated[str, PrintableLine(4096)]
Count = Annotated[int, Within(0, 2**53)]

MAX_RUN = 10**9  # thirty years of one run a second
RunNumber = Annotated[int, Within(0, MAX_RUN)]
TimeS = Annotated[float, Within(0, 1e11)]  # since 1970: up to the year 5138
SpanS = Annotated[float, Within(0, 1e9)]
