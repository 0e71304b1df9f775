"""Work that does not end by itself ends in time, and cancels what it began."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from hpcforge.run.smoke_tests import TimeLimitError, within

_CLEANS_UP_FOR_EVER = """
import threading
import signal
from hpcforge.run.smoke_tests import within
with within(3600, lambda: "allreduce: 6 ranks", cleanup_s=0.05):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        threading.Event().wait()
    finally:
        threading.Event().wait()
"""


def test_an_endless_loop_ends_and_names_what_it_waits_for() -> None:
    cancelled = []
    with pytest.raises(TimeLimitError) as ended, within(7200, lambda: "pairs: round 3: 4 pairs"):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)  # the limit passes while it loops
            while True:
                try:
                    sum(range(1000))
                except Exception:  # as code that continues after any error
                    continue
        finally:
            cancelled.append("job 12")
    assert cancelled == ["job 12"]
    assert str(ended.value) == "not ended after 120 min, the sum of the time limits: pairs: round 3: 4 pairs"


def test_a_wait_without_an_end_ends() -> None:
    with pytest.raises(TimeLimitError), within(0.05, lambda: "the head"):
        threading.Event().wait()


def test_a_process_that_cannot_clean_up_ends_with_1_and_says_what_may_be_left() -> None:
    ran = subprocess.run([sys.executable, "-c", _CLEANS_UP_FOR_EVER], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr == "error: jobs may not be cancelled: allreduce: 6 ranks; on the head: squeue, scancel\n"


def test_what_ends_in_time_is_left_alone() -> None:
    with within(3600, lambda: "nothing"):
        pass
    with pytest.raises(ValueError, match="mine"), within(3600, lambda: "nothing"):
        raise ValueError("mine")


def test_elsewhere_than_in_the_main_thread_nothing_is_limited() -> None:
    ended = []

    def work() -> None:
        with within(0.01, lambda: "nothing"):
            ended.append(1)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [1]
