"""Being told to end: by Ctrl-C, by SIGTERM, or by a terminal that is gone (SIGHUP); all three are taken alike.

Where SIGHUP is ignored, as under nohup, it stays so.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "the terminal is gone"}
_Handler = Callable[[int, FrameType | None], None]


def at_once() -> None:
    """From now on each of them ends the work under way as Ctrl-C does, by KeyboardInterrupt."""
    terminals = _terminals()

    def take(number: int, _frame: FrameType | None) -> None:
        _leave_terminal(number, terminals)
        raise KeyboardInterrupt

    _handle(take)


@contextmanager
def in_good_order(say: Callable[[str], None], message: str) -> Iterator[Callable[[], bool]]:
    """Set the given flag at the first signal and print what happens `then`; the next one ends the process at once."""
    received: list[int] = []

    def take(number: int, _frame: FrameType | None) -> None:
        _leave_terminal(number, terminals)
        if received:
            raise KeyboardInterrupt
        received.append(number)
        say(f"{_SIGNALS[signal.Signals(number)]}: {message}")

    terminals = _terminals()
    before = _handle(take)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handle(handler: _Handler) -> dict[signal.Signals, signal.Handlers | _Handler]:
    """Set it for all, but for a SIGHUP that is ignored; those that were there before."""
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    return {number: signal.signal(number, handler) for number in _SIGNALS if number not in ignored}  # type: ignore[misc]


def _terminals() -> tuple[int, ...]:
    """Our standard streams that are a terminal: of one that is gone that cannot be told any more."""
    return tuple(number for number in (0, 1, 2) if os.isatty(number))


def _leave_terminal(number: int, terminals: tuple[int, ...]) -> None:
    """Have nothing written to a terminal that is gone: that would fail."""
    if number == signal.SIGHUP:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in terminals:
            os.dup2(nothing, stream)
        os.close(nothing)
