"""An end in time, also for work that would never end by itself: a loop of this process, or a wait without an end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from hpcforge.errors import ExpectedError

_STDERR = 2
CLEANUP_S = 180.0  # to cancel jobs and to remove reservations, once the time is over


class TimeLimitError(ExpectedError):
    """The work did not end within its time limit; names what it waited for."""

    hint = "its jobs are cancelled, its reservation is removed; run the command again"


class _TimeOver(BaseException):
    """Raised wherever the work is; no handler of errors takes it."""


@contextmanager
def within(limit_s: float, waits_for: Callable[[], str], *, cleanup_s: float = CLEANUP_S) -> Iterator[None]:
    """End the work inside after `limit_s` seconds, wherever it is; its own `finally` clauses run.

    Where these do not end within `cleanup_s` either, the process ends with status 1, and prints what may be left.
    Works in the main thread, where Python handles signals; elsewhere nothing is limited.

    Raises:
        TimeLimitError: the time was over.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    over = False

    def alarm(_number: int, _frame: FrameType | None) -> None:
        nonlocal over
        if over:
            message = f"error: jobs may not be cancelled: {waits_for()}; on the head: squeue, scancel\n"
            os.write(_STDERR, message.encode(errors="replace"))
            os._exit(1)
        over = True
        signal.setitimer(signal.ITIMER_REAL, cleanup_s)
        raise _TimeOver

    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    except _TimeOver:
        limit = f"{limit_s / 60:.0f} min" if limit_s >= 60 else f"{limit_s:g} s"
        raise TimeLimitError(f"not ended after {limit}, the sum of the time limits: {waits_for()}") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
