"""Signals that end a command: Ctrl-C (SIGINT), SIGTERM, and a closed terminal (SIGHUP). All three have the same effect.

An ignored SIGHUP, as under nohup, stays ignored.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "the terminal is gone"}
_AGAIN_S = 0.01
_Handler = Callable[[int, FrameType | None], None]


def at_once() -> None:
    """Raise KeyboardInterrupt for each of these signals, as for Ctrl-C."""
    terminals = _terminals()

    def take(number: int, _frame: FrameType | None) -> None:
        _leave_terminal(number, terminals)
        raise KeyboardInterrupt

    def unraisable(error: sys.UnraisableHookArgs) -> None:
        """Raise it again a moment later: Python drops it where it comes in a callback, as of an import."""
        if isinstance(error.exc_value, KeyboardInterrupt):
            signal.signal(signal.SIGALRM, take)
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        else:
            sys.__unraisablehook__(error)

    sys.unraisablehook = unraisable
    _handle(take)


@contextmanager
def in_good_order(say: Callable[[str], None], message: str) -> Iterator[Callable[[], bool]]:
    """Yield a flag that the first signal sets; it also prints `message`. The next one raises KeyboardInterrupt."""
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
    """Set the handler of all signals except an ignored SIGHUP. Returns the previous handlers."""
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    return {number: signal.signal(number, handler) for number in _SIGNALS if number not in ignored}  # type: ignore[misc]


def _terminals() -> tuple[int, ...]:
    """Return the standard streams that are a terminal. A closed terminal cannot be detected later."""
    return tuple(number for number in (0, 1, 2) if os.isatty(number))


def _leave_terminal(number: int, terminals: tuple[int, ...]) -> None:
    """Replace the streams of a closed terminal by /dev/null: a write would fail."""
    if number == signal.SIGHUP:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in terminals:
            os.dup2(nothing, stream)
        os.close(nothing)
