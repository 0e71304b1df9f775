"""Verify's interface to the head, for commands there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hpcforge.verify.heartbeat import Owner


@dataclass(frozen=True)
class Completed:
    """The result of a command. `rc` is None if it did not end: cut off at its time limit, or the head was lost."""

    rc: int | None
    stdout: str
    stderr: str


class Head(Protocol):
    """Runs commands on the head for a run of hpcforge, one at a time; as root where no user is named.

    Commands always give a result, also if the head cannot be reached (`rc` None, the reason in `stderr`), and leave no
    process behind when they are cut off. `meanwhile` is called several times a second during a command; its exceptions
    end the waiting, and not the command.
    """

    @property
    def owner(self) -> Owner:
        """The run of hpcforge that it serves."""
        ...

    def stop(self) -> bool:
        """Whether that run must end, and waiting with it."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        user: str | None = None,
        timeout_s: float,
        aside: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Completed:
        """Run a command to its end, at most for `timeout_s` seconds; `aside`: also while another is under way."""
        ...

    def tell(self, argv: Sequence[str], *, timeout_s: float) -> None:
        """Begin a command aside, without waiting for its end; skip it while the last one runs."""
        ...

    def pause(self, seconds: float, meanwhile: Callable[[], None]) -> None:
        """Wait."""
        ...
