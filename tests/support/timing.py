"""What tests cost: the slowest, whether they compute or wait, the minutes of each story, and the budget of a target.

Registered by `conftest.py`. A worker of pytest-xdist measures each of its tests, and its reports carry that to the
process that prints.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support.machine import slowness
from tools import stories

BUDGETS = Path(__file__).parents[1] / "budgets.yaml"
OVER = 1.5  # a target fails that is over its budget by half: machines differ, and are seldom quiet
_SLOWEST = 50
_SPENT = "spent"  # a test's figures among the properties of its last report


@dataclass(frozen=True)
class Spent:
    """One test: seconds from its set-up to its tear-down, and which part of all cores was at work meanwhile (0 to 1).

    Cores are the machine's: with several workers whoever was at work counts, so that a small number means that
    everybody waited.
    """

    test: str
    wall_s: float
    busy: float


def read_budgets(path: Path = BUDGETS) -> dict[str, float]:
    """Minutes on two quiet cores of each target that has a budget."""
    return {target: float(minutes) for target, minutes in yaml.safe_load(path.read_text()).items()}


def complaint(target: str, budget_min: float, took_min: float, slower: float = 1.0) -> str:
    """What is wrong with a target that took its budget and half of it again; empty if nothing is.

    A machine that is so many times slower than the one that budgets are for has so many times longer.
    """
    share_min = round(budget_min * slower, 1)
    if took_min < OVER * share_min:
        return ""
    return f"{target}: {took_min:.1f} min, over {share_min:g} min by half or more: make its slowest tests quicker"


def story_minutes(spent: Sequence[Spent]) -> dict[str, float]:
    """Minutes of each file of tests/stories, by its path from there."""
    took: dict[str, float] = {}
    for test in spent:
        path = test.test.partition("::")[0]
        if path.startswith("tests/stories/"):
            name = path.removeprefix("tests/stories/")
            took[name] = took.get(name, 0.0) + test.wall_s / 60
    return took


class Timing:
    """Measures in the process that runs tests, adds up in the one that reports."""

    def __init__(self, target: str | None, shown: bool, written: bool) -> None:
        """`target`: whose budget to judge by. `shown`: print times. `written`: write the minutes of stories."""
        self._target = target
        self._shown = shown or target is not None or written
        self._written = written
        self._spent: list[Spent] = []
        self._began_s = time.monotonic()
        self._test = _Clock()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Start the clock of a test."""
        self._test = _Clock()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add what was spent to the last report of a test."""
        report = yield
        if call.when == "teardown":
            report.user_properties.append((_SPENT, self._test.read()))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a test spent."""
        for name, value in report.user_properties:
            if name == _SPENT and report.when == "teardown":
                wall_s, busy = value
                self._spent.append(Spent(report.nodeid, wall_s, busy))

    def _complaint(self) -> str:
        if self._target is None:
            return ""
        took_min = (time.monotonic() - self._began_s) / 60
        return complaint(self._target, read_budgets()[self._target], took_min, slowness())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A target that is over its budget fails. Minutes of stories are written where all tests passed."""
        if session.exitstatus != pytest.ExitCode.OK or hasattr(session.config, "workerinput"):
            return
        if self._written:
            took_min = {name: minutes / slowness() for name, minutes in story_minutes(self._spent).items()}
            stories.write(stories.measured(stories.read_stories(), took_min, stories.files()))
        if self._complaint():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The slowest tests, the minutes of each story, and what is over its budget."""
        if not self._shown:
            return
        say = terminalreporter.write_line
        terminalreporter.section(f"slowest {_SLOWEST}: seconds, and how busy all cores were meanwhile")
        for test in sorted(self._spent, key=lambda test: -test.wall_s)[:_SLOWEST]:
            activity = "computes" if test.busy >= 0.5 else "waits"
            say(f"{test.wall_s:7.1f} s  {test.busy:4.0%}  {activity:8}  {test.test}")
        terminalreporter.section("minutes" + f", on a machine {slowness():.1f} times slower" * (slowness() > 1))
        for name, minutes in sorted(story_minutes(self._spent).items()):
            say(f"{minutes:6.1f} min  {name}")
        took_min = (time.monotonic() - self._began_s) / 60
        budget = f", budget {read_budgets()[self._target]:g} min" if self._target else ""
        say(f"{took_min:6.1f} min  all{budget}")
        if line := self._complaint():
            say(f"FAILED {line}", red=True)


class _Clock:
    """Seconds, and what all cores of this machine did in them."""

    def __init__(self) -> None:
        self._wall_s, (self._busy, self._all) = time.monotonic(), _cores()

    def read(self) -> tuple[float, float]:
        """Seconds since the start, and which part of the cores' time was work."""
        busy, all_ = _cores()
        return round(time.monotonic() - self._wall_s, 2), round((busy - self._busy) / max(1, all_ - self._all), 2)


def _cores() -> tuple[int, int]:
    """Ticks that all cores have worked, and all ticks there were (proc_stat(5))."""
    user, nice, system, idle, iowait, irq, softirq, *_ = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    )
    busy = user + nice + system + irq + softirq
    return busy, busy + idle + iowait
