"""Checks: commands with an expected outcome."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from hpcforge.node import commands
from hpcforge.node.events import NodeError, explain, readable

if TYPE_CHECKING:
    from hpcforge.node.requests import CheckRequest

Result = TypeVar("Result")
_ONCE_S = 30.0  # limit of one try without waiting: all checks of a node run at once
_LATE = "no answer within"
_KEYWORD = re.compile(r"(?:\(\?i\))?\^(\w+) ")
_SSHD = ("/usr/sbin/sshd", "-T")
_PAUSE_S = (0.2, 2.0)  # first and longest pause between tries


def attempt(check: CheckRequest, timeout_s: float) -> str | None:
    """Run a check once; return None if it passes, else the reason."""
    return _attempts([check], timeout_s)[0]


def _attempts(several: Sequence[CheckRequest], timeout_s: float) -> list[str | None]:
    """Run the common command of several checks once; return for each None if it passes, else the reason."""
    try:
        outcome = commands.run(several[0]["command"], timeout_s, merge=True)
    except NodeError as error:
        return [explain(error)] * len(several)
    return [_judge(check, outcome, timeout_s) for check in several]


def _judge(check: CheckRequest, outcome: commands.CommandResult, timeout_s: float) -> str | None:
    text = readable(outcome.stdout, 500)
    if outcome.timed_out:
        return f"{_LATE} {timeout_s:g} s" + (f"; so far: {text}" if text else "")
    if outcome.rc != 0:
        return f"exit status {outcome.rc}" + (f": {text}" if text else "")
    if check["stdout"] is None:
        return None
    if outcome.cut:
        return f"more than {commands.OUTPUT_LIMIT >> 20} MiB of output"
    try:
        match = re.search(check["stdout"], outcome.stdout, re.MULTILINE)
    except re.error as error:
        return f"/{check['stdout']}/ is not a regular expression: {error}"
    if not match:
        return f"output does not match /{check['stdout']}/: {_setting(check, outcome.stdout) or text or 'it is empty'}"
    return None


def _setting(check: CheckRequest, output: str) -> str:
    """Return the lines of an output with the keyword of the expected line; for sshd with their source."""
    keyword = _KEYWORD.match(check["stdout"] or "")
    if keyword is None:
        return ""
    lines = [line for line in output.splitlines() if line.lower().startswith(f"{keyword[1].lower()} ")]
    if tuple(check["command"]) == _SSHD:
        from hpcforge.node import sshd_settings  # noqa: PLC0415 - a node compiles what it imports

        lines = [f"{line} ({sshd_settings.source(keyword[1], line.partition(' ')[2])})" for line in lines]
    return readable("\n".join(lines), 500)


def once(several: Sequence[CheckRequest]) -> list[str | None]:
    """Run the common command of several checks, without waiting; return for each None if it passes, else the reason.

    Checks with a waiting time get a second try: one lost packet is no reason to restart a service. A check that took
    its whole time gets none.
    """
    details = _attempts(several, _ONCE_S)
    tries = [place for place, detail in enumerate(details) if detail is not None and not detail.startswith(_LATE)]
    retries = [place for place in tries if several[place]["wait_s"]]
    if retries:
        for place, detail in zip(retries, _attempts([several[place] for place in retries], _ONCE_S)):
            details[place] = detail
    return details


def output(argv: Sequence[str]) -> str | None:
    """Return a command's output; None if it cannot be run, fails or takes too long. NodeError for too much output."""
    try:
        outcome = commands.run(argv, _ONCE_S)
    except NodeError:
        return None
    return outcome.whole(" ".join(argv)) if outcome.rc == 0 else None


def side_by_side(tasks: Sequence[Callable[[], Result]]) -> list[Result | str]:
    """Run tasks that mostly wait, each in a thread; return their results, or the text of an exception."""
    results: list[Result | str] = [""] * len(tasks)

    def work(index: int) -> None:
        try:
            results[index] = tasks[index]()
        except Exception as error:  # a check that cannot be run has not passed
            results[index] = explain(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def until_passed(check: CheckRequest, stopped: Callable[[], str | None] = lambda: None) -> None:
    """Repeat a check until it passes; NodeError with its last message when its `wait_s` is over.

    The waiting also ends when `stopped()` returns the reason of a stop.
    """
    deadline = time.monotonic() + check["wait_s"]
    pause = _PAUSE_S[0]
    while True:
        detail = attempt(check, max(_ONCE_S, deadline - time.monotonic()))
        if detail is None:
            return
        remaining_s = deadline - time.monotonic()
        if stopped():
            raise NodeError(f"`{' '.join(check['command'])}`: {detail}; stopped by {stopped()} while waiting for it")
        if remaining_s <= 0:
            waited = f" (waited {check['wait_s']:g} s)" if check["wait_s"] else ""
            raise NodeError(f"`{' '.join(check['command'])}`{waited}: {detail}")
        time.sleep(min(pause, remaining_s))
        pause = min(pause * 2, _PAUSE_S[1])
