"""What verify asks of the head: to run a command there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Completed:
    """What became of a command. `rc` is None if it did not end: cut off at its time limit, or the head was lost."""

    rc: int | None
    stdout: str
    stderr: str


class Head(Protocol):
    """Runs commands on the head, one at a time; as root where no user is named.

    It returns a result whatever happens, also if the head cannot be reached (`rc` None, the reason in `stderr`), and
    leaves no process behind when it is cut off.
    """

    def run(self, argv: Sequence[str], *, stdin: str = "", user: str | None = None, timeout_s: float) -> Completed:
        """Run a command to its end, at most for `timeout_s` seconds."""
        ...
