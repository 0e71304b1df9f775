"""The smoke tests of a run: choice, launches, and records."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import ceil
from types import FrameType
from typing import TYPE_CHECKING

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.smoke_tests import Level
from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.engines.tasks import Engine
from hpcforge.errors import ExpectedError
from hpcforge.plan.plan import Plan
from hpcforge.plan.test_selection import PassedNodes, SmokeRun, SmokeRuns, Verify, smoke_runs
from hpcforge.run.records.history import store_verdicts
from hpcforge.run.result import UNREACHABLE, Listener, Reached, Verified
from hpcforge.tally import Tally
from hpcforge.verify.head import Head
from hpcforge.verify.lines import SECOND_RUN_S, References, needs_second_run, of_two_runs, weighed
from hpcforge.verify.verdict_records import Recorded
from hpcforge.verify.verdicts import Verdict

if TYPE_CHECKING:  # what launches tests is imported with the first one: most runs launch none
    from hpcforge.verify.isolate import Plans

# A time limit, also for work that never ends by itself: a loop of this process, or an endless wait.
_STDERR = 2
CLEANUP_S = 180.0  # to cancel jobs and remove reservations after the limit


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


_START_S = 60.0  # for a job to start and to end


def planned(cluster: Cluster, plan: Plan, recorded: Recorded, verify_what: Verify, out: Collection[str] = ()) -> Plan:
    """Return the plan with the tests that would follow it, as far as they are known. Slurm does not use `out`."""
    if not plan.policy.scheduler:
        return replace(plan, policy=replace(plan.policy, verify="none"))
    faulty = {*out} - {*plan.changes.felt} | {
        *plan.state.unreachable,
        *plan.state.refused,
        *(shortfall.node for shortfall in plan.state.shortfalls),
    }
    in_use = {node: f"job {', '.join(jobs)}" for node, jobs in plan.state.jobs.items()}
    changed = after(cluster, recorded, plan.changes.felt)
    tests = chosen(cluster, changed, verify_what, faulty, in_use)
    return replace(plan, policy=replace(plan.policy, verify=verify_what, smoke=tests))


def after(cluster: Cluster, recorded: Recorded, felt: Collection[str]) -> Recorded:
    """Return the records that still hold once these nodes have been changed."""
    workers = {node.name for node in cluster.workers}
    return recorded.changed(workers & {*felt}, served=workers >= {*felt})


def chosen(
    cluster: Cluster,
    recorded: Recorded,
    verify_what: Verify,
    out: Collection[str],
    in_use: Mapping[str, str],
    level: Level = "smoke",
) -> SmokeRuns:
    """Return the tests up to a level, with their nodes, by the records."""
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    passed = [(test, last) for test in tests if (last := recorded.of(test)) is not None and last.last.passed]
    standing = {
        test: PassedNodes(frozenset(last.stands_for), last.served, tuple(last.verdict.options.items()))
        for test, last in passed
    }
    return smoke_runs(cluster, standing, verify_what, out, in_use, level)


def own_lines(test: SmokeTest, verdict: Verdict) -> Verdict:
    """Return the verdict with the limits of its test, and no others."""
    return weighed(verdict, test.program, References())


@dataclass(frozen=True)
class SmokeSetup:
    """The cluster on which smoke tests run, and the judgement of their numbers."""

    engine: Engine
    head: Head
    cluster: Cluster
    listener: Listener
    weigh: Callable[[SmokeTest, Verdict], Verdict] = own_lines  # compares numbers with limits
    plans: Plans = tuple  # the fabrics of the nodes

    def obstacle(self, out: Mapping[str, str]) -> str:
        """Return the reason for which no test can run; "" if tests can run."""
        if self.cluster.acceptance is None:
            return "not verified: the blueprint has no acceptance section"
        controller = self.cluster.slurm.controller
        if out.get(controller, "").startswith(UNREACHABLE):
            return f"not verified: {controller} is {out[controller]}"
        return ""


def run_tests(setup: SmokeSetup, recorded: Recorded, verify_what: Verify, out: Mapping[str, str]) -> Verified:
    """Choose tests of the blueprint by their records, run them on workers but those left `out`; store the verdicts."""
    cluster, head = setup.cluster, setup.head
    obstacle = setup.obstacle(out)
    runs = SmokeRuns() if obstacle else chosen(cluster, recorded, verify_what, out, {})
    if not runs.runs:
        return Verified(recorded=recorded, note=obstacle)
    with setup.listener.phase("verify"):
        if any(run.partners for run in runs.runs):  # this run may not have observed the partners
            from hpcforge.verify.jobs import busy, unusable  # noqa: PLC0415

            workers = [node.name for node in cluster.workers]
            run_as = cluster.acceptance.run_as if cluster.acceptance else ""
            latest, in_use = {**unusable(head, workers), **out}, busy(head, workers, run_as)
            runs = chosen(cluster, recorded, verify_what, latest, in_use)
        return _run(setup, recorded, runs, out, "")


def run_chosen(
    setup: SmokeSetup, recorded: Recorded, runs: SmokeRuns, out: Mapping[str, str], reservation: str
) -> Verified:
    """Run these tests as `run_tests` does; other tests keep the verdicts that they have.

    `reservation`: of Slurm's, that has the nodes; "" for none.
    """
    obstacle = setup.obstacle(out)
    if obstacle or not runs.runs:
        return Verified(recorded=recorded, note=obstacle)
    with setup.listener.phase("verify"):
        return _run(setup, recorded, runs, out, reservation)


def _run(setup: SmokeSetup, recorded: Recorded, runs: SmokeRuns, out: Mapping[str, str], reservation: str) -> Verified:
    cluster, listener = setup.cluster, setup.listener
    for wait in runs.waiting:
        listener.say(f"{', '.join(wait.tests)}: {wait.explanation}")
    reached = list[Reached]()
    with listener.tally("launches of tests", launches(cluster, recorded, runs.runs)) as tally:
        session = _SmokeSession(setup, out, reservation, tally)
        most_s = limit_s(cluster, runs)
        before_s = sum(launches(cluster, recorded, runs.runs, unknown=0.0).values())
        before = f"; {before_s:.0f} s the last time" if before_s else ""
        listener.say(f"at most {ceil(most_s / 60)} min in all, by the time limits of the tests{before}")
        with within(most_s, lambda: session.activity):
            for part in (False, True):
                reached += session.measure_twice([run for run in runs.runs if run.partners == part], part=part)
        of_sets = [
            (_on(cluster, result.verdict.test, result.run.span), result.verdict, result.run.whole) for result in reached
        ]
        tests = cluster.acceptance.tests if cluster.acceptance else ()
        recorded = recorded.reached(tests, of_sets, time.time())
        problem = store_verdicts(setup.engine, cluster.slurm.controller, recorded)
    note = f"the verdicts could not be kept on the head: {problem}" if problem else ""
    return Verified(tuple(reached), runs.waiting, session.fell_out, recorded, note)


@dataclass
class _SmokeSession:
    """Launches of tests, with the nodes that fall out on the way."""

    setup: SmokeSetup
    out: Mapping[str, str]
    reservation: str
    tally: Tally
    fell_out: dict[str, str] = field(default_factory=dict)
    activity: str = "the first test"

    def measure_twice(self, runs: Sequence[SmokeRun], *, part: bool) -> list[Reached]:
        """Run tests, and run those again whose numbers missed a limit."""
        results = self._measure(runs, part=part)
        missed = [number for number, result in enumerate(results) if needs_second_run(result.verdict)]
        if not missed:
            return results
        tests = [results[number].verdict.test for number in missed]
        self.setup.listener.say(f"{', '.join(tests)}: missed; run again")
        second_runs = [replace(results[number].run, tests=(results[number].verdict.test,)) for number in missed]
        for number, second in zip(missed, self._measure(second_runs, part=part), strict=True):
            verdict = of_two_runs(results[number].verdict, second.verdict)
            results[number] = replace(results[number], verdict=verdict)
        return results

    def _measure(self, runs: Sequence[SmokeRun], *, part: bool) -> list[Reached]:
        """Run tests, and compare their numbers with limits."""
        results = self._launch(runs, part=part)
        for result in results:
            self.fell_out.update(
                (node, reason) for node, reason in result.verdict.left_out.items() if node not in self.out
            )
        return [replace(result, verdict=self._weigh(result)) for result in results]

    def _weigh(self, result: Reached) -> Verdict:
        test = _on(self.setup.cluster, result.verdict.test, result.run.nodes)
        return self.setup.weigh(test, result.verdict)

    def _launch(self, runs: Sequence[SmokeRun], *, part: bool) -> list[Reached]:
        from hpcforge.verify.verify import LaunchOptions, verify  # noqa: PLC0415

        cluster = self.setup.cluster
        entries = [(run, _on(cluster, name, run.nodes)) for run in runs for name in run.tests]
        verdicts = verify(
            cluster,
            self.setup.head,
            {**self.out, **self.fell_out},
            self._progress,
            tests=[test for _, test in entries],
            options=LaunchOptions(part=part, reservation=self.reservation, plans=self.setup.plans),
            counted=lambda launched: self.tally.part(_launch_name(launched)),
        )
        return [Reached(run, verdict) for (run, _), verdict in zip(entries, verdicts, strict=True)]

    def _progress(self, tests: str, text: str) -> None:
        self.activity = f"{tests}: {text}"
        self.setup.listener.say(self.activity)


def limit_s(cluster: Cluster, choice: SmokeRuns) -> int:
    """Return the seconds that tests may take in all: their time limits, waits for a start, and second runs."""
    from hpcforge.verify.verify import PENDING_S  # noqa: PLC0415

    tests = cluster.acceptance.tests if cluster.acceptance else ()
    limits = {test.name: test.time_limit_s for test in tests}
    of_runs = [limits[name] for run in choice.runs for name in run.tests]
    return round(sum(limit + min(limit, SECOND_RUN_S) + 2 * (PENDING_S + _START_S) for limit in of_runs))


def asked(choice: SmokeRuns, names: Collection[str] | None, limit: Collection[str] | None) -> SmokeRuns:
    """Return the part of a choice with these tests and nodes; None: all."""
    runs = [_limit(run, limit) for run in choice.runs] if limit is not None else list(choice.runs)
    waits = list(choice.waiting)
    if names:
        runs = [replace(run, tests=tuple(test for test in run.tests if test in names)) for run in runs]
        waits = [replace(wait, tests=tuple(name for name in wait.tests if name in names)) for wait in waits]
    return SmokeRuns(tuple(run for run in runs if run.tests and run.nodes), tuple(wait for wait in waits if wait.tests))


def _limit(run: SmokeRun, limit: Collection[str]) -> SmokeRun:
    nodes = tuple(node for node in run.nodes if node in limit)
    return run if nodes == run.nodes else replace(run, nodes=nodes, why="limited")


def launches(cluster: Cluster, recorded: Recorded, runs: Sequence[SmokeRun], unknown: float = 1.0) -> dict[str, float]:
    """Return the launches of some runs, with the seconds that their tests took before.

    Without one of these each has `unknown`.
    """
    from hpcforge.verify.verify import launched_as  # noqa: PLC0415

    times_s: dict[str, float] = {}
    for part in (False, True):
        tests = dict.fromkeys(
            _on(cluster, name, run.nodes) for run in runs if run.partners == part for name in run.tests
        )
        groups: dict[object, list[SmokeTest]] = {}
        for test in tests:
            groups.setdefault(launched_as(test), []).append(test)
        for group in groups.values():
            seconds = [last.last.seconds if (last := recorded.of(test)) else 0.0 for test in group]
            times_s[_launch_name(group)] = sum(seconds) if all(seconds) else 0.0
    return times_s if all(times_s.values()) else dict.fromkeys(times_s, unknown)


def _launch_name(tests: Sequence[SmokeTest]) -> str:
    return f"{', '.join(test.name for test in tests)} on {fold(tests[0].nodes)}"


def _on(cluster: Cluster, name: str, nodes: tuple[str, ...]) -> SmokeTest:
    """Return a test of the blueprint on some nodes."""
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    return replace(next(test for test in tests if test.name == name), nodes=nodes)
