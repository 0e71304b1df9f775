"""What tests cost: the slowest, whether they compute or wait, and what each part took of its share (`parts.yaml`).

Registered by `conftest.py`. A worker of pytest-xdist measures each of its tests, and its reports carry that to the
process that prints.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from tests.support.machine import slowness

PARTS = Path(__file__).parents[1] / "parts.yaml"
OVER = 1.5  # a part fails that is over its share by half: machines differ, and are seldom quiet
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


@dataclass(frozen=True)
class Part:
    """Some of the tests, and how many minutes they may take on two quiet cores."""

    name: str
    share_min: float
    tests: tuple[str, ...]


def read_parts(path: Path = PARTS) -> tuple[float, tuple[Part, ...]]:
    """Minutes for all tests, and the parts in the order in which they are asked for a test."""
    told = yaml.safe_load(path.read_text())
    parts = (Part(name, one["share_min"], tuple(one["tests"])) for name, one in told["parts"].items())
    return told["all_min"], tuple(parts)


def part_of(test: str, parts: Sequence[Part]) -> str:
    """The name of the part that a test belongs to."""
    return next(part.name for part in parts if any(fnmatchcase(test, pattern) for pattern in part.tests))


def minutes(spent: Sequence[Spent], parts: Sequence[Part], elapsed_s: float) -> dict[str, float]:
    """What each part took of the elapsed time: tests run side by side, so it is shared out by their seconds."""
    seconds = dict.fromkeys((part.name for part in parts), 0.0)
    for one in spent:
        seconds[part_of(one.test, parts)] += one.wall_s
    whole_s = sum(seconds.values())
    return {name: elapsed_s / 60 * own_s / whole_s if whole_s else 0.0 for name, own_s in seconds.items()}


def complaints(took_min: Mapping[str, float], all_min: float, parts: Sequence[Part], slower: float = 1.0) -> list[str]:
    """A line for each part, and for all together, that is over its share by half or more.

    A machine that is so many times slower than the one that shares are for has so many times longer.
    """
    whole = {"all tests": all_min, **{part.name: part.share_min for part in parts}}
    shares = {name: round(share_min * slower, 1) for name, share_min in whole.items()}
    told = {"all tests": sum(took_min.values()), **took_min}
    return [
        f"{name}: {told[name]:.1f} min, over {share:g} min by half or more: make it quicker, or a target of its own"
        for name, share in shares.items()
        if told[name] >= OVER * share
    ]


class Timing:
    """Measures in the process that runs tests, adds up in the one that reports."""

    def __init__(self, judged: bool) -> None:
        self._judged = judged
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

    def _complaints(self) -> list[str]:
        all_min, parts = read_parts()
        return complaints(minutes(self._spent, parts, time.monotonic() - self._began_s), all_min, parts, slowness())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """With `--budget`, a part that is over its share fails the run."""
        if self._judged and session.exitstatus == pytest.ExitCode.OK and self._complaints():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The slowest tests, the parts, and with `--budget` what is over its share."""
        if not self._judged:
            return
        say = terminalreporter.write_line
        terminalreporter.section(f"slowest {_SLOWEST}: seconds, and how busy all cores were meanwhile")
        for one in sorted(self._spent, key=lambda one: -one.wall_s)[:_SLOWEST]:
            say(f"{one.wall_s:7.1f} s  {one.busy:4.0%}  {'computes' if one.busy >= 0.5 else 'waits':8}  {one.test}")
        slower = slowness()
        terminalreporter.section("parts" + f", on a machine {slower:.1f} times slower" * (slower > 1))
        all_min, parts = read_parts()
        took_min = minutes(self._spent, parts, time.monotonic() - self._began_s)
        for part in parts:
            say(f"{took_min[part.name]:6.1f} of {part.share_min} min  {part.name}")
        say(f"{sum(took_min.values()):6.1f} of {all_min} min  all tests")
        for line in complaints(took_min, all_min, parts, slower):
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
