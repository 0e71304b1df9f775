"""The smoke tests by themselves, on the cluster as it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from hpcforge import __version__
from hpcforge.blueprint.smoke_tests import Level
from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Engine
from hpcforge.errors import ExpectedError
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import SLURM_NODES
from hpcforge.plan.observation import Observation
from hpcforge.plan.test_selection import SmokeRuns, gate_runs
from hpcforge.run import down_workers, leftover
from hpcforge.run.engine_head import EngineHead, owner
from hpcforge.run.expectations import Expectations
from hpcforge.run.observe import find_usable
from hpcforge.run.records.history import store_verifications
from hpcforge.run.result import UNREACHABLE, Listener, Run, Verified, begin
from hpcforge.run.smoke_tests import SmokeSetup, asked, chosen, limit_s, run_chosen
from hpcforge.slurm.down_nodes import DownWorker
from hpcforge.slurm.nodes import drained, parse_slurm_nodes
from hpcforge.verify.baselines import VERIFICATIONS_PATH, PastVerification, Verifications
from hpcforge.verify.baselines import load as load_kept
from hpcforge.verify.head import Head
from hpcforge.verify.isolate import Plans
from hpcforge.verify.jobs import busy
from hpcforge.verify.reservation import ReservationError, drain, drained_unless_passed, reserved
from hpcforge.verify.verdict_records import VERDICTS_PATH, Recorded, load
from hpcforge.verify.verdicts import Verdict

if TYPE_CHECKING:
    from hpcforge.node.answer_types import Facts

_LATER_MIN = 5  # a gate's reservation outlasts the timer of the drain by this
_MARGIN_MIN = 10  # of a reservation, beyond the time limits of its tests
_HEAD_S = 30.0  # for a short command on the head
NODES_A_DRAIN = 10  # one drain for this number of tested nodes, at least one: no faulty test empties a cluster
BLAMES = ("wrong", "missed", "failed", "timed_out")  # statuses that say something about a node


@dataclass(frozen=True)
class Usable:
    """The answers of nodes and head: the workers that tests must not use, with the reason, and the records."""

    out: Mapping[str, str]
    recorded: Recorded
    seen: Mapping[str, Observation] = field(default_factory=dict)
    kept: Verifications = field(default_factory=Verifications)
    down: tuple[DownWorker, ...] = ()  # workers that take no job, though no operator holds them

    def slurm_state(self, cluster: Cluster, node: str) -> tuple[str, str]:
        """Return a node's state and reason in Slurm; "" if the node is unknown there."""
        answer = self.seen[cluster.slurm.controller].answers.get(SLURM_NODES, "")
        return parse_slurm_nodes(answer).get(node, ("", ""))


@dataclass(frozen=True)
class VerifyRequest:
    """The selection of a verification. `reserve`: only idle nodes, in a reservation of Slurm's."""

    names: Collection[str] | None = None  # tests; None: all up to the level
    limit: Collection[str] | None = None  # nodes; None: all
    level: Level = "smoke"
    reserve: bool = False
    gate: str | None = None  # a drained node


@dataclass(frozen=True)
class Verification:
    """The result of a verification: tests, busy nodes, drained and resumed nodes."""

    tests: Verified
    run: Run
    began_s: float
    ended_s: float
    busy: Mapping[str, str] = field(default_factory=dict)  # nodes with users' jobs -> the job
    drained: Mapping[str, str] = field(default_factory=dict)  # by this run, with the reason
    not_drained: Mapping[str, str] = field(default_factory=dict)  # blamed nodes beyond the limit of one verification
    resumed: tuple[str, ...] = ()


class GateError(ExpectedError):
    """A node cannot be tested before its return; says why."""


def look(engine: Engine, cluster: Cluster, desired: Desired, listener: Listener, gate: str | None = None) -> Usable:
    """Ask all nodes, and cancel leftover test jobs. `gate` is tested though it is drained."""
    with listener.phase("observe"):
        out, observed = find_usable(engine, cluster, listener.say, (VERIFICATIONS_PATH,))
        head = observed[cluster.slurm.controller]
        if leftover.parse(head.answers):
            leftover.clear(engine, cluster, listener.say)
        names = [name for name in down_workers.configured(observed) if name != gate]
        down = down_workers.explained(engine, cluster, desired, down_workers.find(cluster, observed, names, names))
        silent = down_workers.silent_controller(engine, cluster, desired, head)
    for controller in silent:
        out |= {worker.name: controller.sentence for worker in cluster.workers if worker.name not in out}
    down = (*silent, *down)
    for worker in down:
        listener.say(f"left out: {worker.sentence}")
        out[worker.node] = worker.sentence
    recorded, verifications = load(head.reads.get(VERDICTS_PATH)), load_kept(head.reads.get(VERIFICATIONS_PATH))
    return Usable(out, recorded, observed, verifications, down)


def expectations(engine: Engine, cluster: Cluster, usable: Usable, expected: Expectations) -> Expectations:
    """Return the limits of design and baseline, with the software that nodes and the head report."""
    if usable.out.get(cluster.slurm.controller, "").startswith(UNREACHABLE):
        return expected
    head = EngineHead(engine, cluster.slurm.controller, owner(begin(cluster.name, __version__)))
    version = head.run(["sinfo", "--version"], timeout_s=_HEAD_S).stdout.strip()
    return replace(
        expected,
        facts={name: cast("Facts", observation.facts) for name, observation in usable.seen.items()},
        slurm=version[:40],
    )


def verify_now(
    engine: Engine,
    usable: Usable,
    request: VerifyRequest,
    expected: Expectations,
    listener: Listener,
    stop: Callable[[], bool],
    plans: Plans,
) -> Verification:
    """Run tests, and keep the verdicts. Numbers are compared with what is `expected`.

    Raises `StoppedError` once `stop()` is true, GateError and ReservationError.
    """
    cluster = expected.cluster
    run, began_s = begin(cluster.name, __version__), time.time()
    head = EngineHead(engine, cluster.slurm.controller, owner(run), stop)
    setup = SmokeSetup(engine, head, cluster, listener, expected.weigh, plans)
    if request.gate is not None:
        return _gated(setup, usable, request, run)
    level: Level = "standard" if request.names else request.level
    out, in_use = dict(usable.out), dict[str, str]()
    if request.reserve and cluster.acceptance:
        in_use = busy(head, [node.name for node in cluster.workers], cluster.acceptance.run_as)
        out |= {node: f"in use: {job}" for node, job in in_use.items() if node not in out}
    runs = asked(chosen(cluster, usable.recorded, "all", out, {}, level), request.names, request.limit)
    nodes = [node for node in _nodes(runs) if node not in out] if request.reserve else []
    drains, beyond = dict[str, str](), dict[str, str]()
    with _reservation(setup, nodes, _minutes(cluster, runs)) as reservation:
        tests = run_chosen(setup, usable.recorded, runs, out, reservation)
        if request.reserve:
            drains, beyond = drain_blamed(head, tests, listener)
    return Verification(tests, run, began_s, time.time(), in_use, drains, beyond)


def _minutes(cluster: Cluster, runs: SmokeRuns) -> int:
    """Return the minutes for which tests need their nodes."""
    return limit_s(cluster, runs) // 60 + _MARGIN_MIN


def keep(
    engine: Engine,
    cluster: Cluster,
    usable: Usable,
    verification: Verification,
    expected: Expectations,
    save_as: str | None,
) -> str | None:
    """Keep a line about this verification on the head, its rates, and its numbers as a baseline.

    Returns why not, if it failed.
    """
    if not verification.tests.reached:
        return None
    head = EngineHead(engine, cluster.slurm.controller, owner(verification.run))
    completed = head.run(["cat", VERIFICATIONS_PATH], timeout_s=_HEAD_S)  # others may have saved while tests ran
    before = load_kept(completed.stdout) if completed.rc == 0 else usable.kept
    if before.problem:
        return f"{VERIFICATIONS_PATH} is {before.problem}; it was not replaced: move it away"
    verdicts = {result.verdict.test: result.verdict for result in verification.tests.reached}
    statuses = {name: str(verdict.status) for name, verdict in verdicts.items()}
    headlines = {name: verdict.headline for name, verdict in verdicts.items() if verdict.headline}
    verifications = before.with_run(PastVerification(verification.began_s, verification.run.who, statuses, headlines))
    by_name = {test.name: test for test in cluster.acceptance.tests} if cluster.acceptance else {}
    rates = {name: expected.rates(test, verdicts[name]) for name, test in by_name.items() if name in verdicts}
    verifications = verifications.with_usual({name: saved for name, saved in rates.items() if saved is not None})
    if save_as is not None:
        passed = [result.verdict for result in verification.tests.reached if result.verdict.passed]
        measured = {verdict.test: expected.measured(by_name[verdict.test], verdict) for verdict in passed}
        verifications = verifications.saved(save_as, verification.began_s, measured)
    return store_verifications(engine, cluster.slurm.controller, verifications)


def _nodes(runs: SmokeRuns) -> list[str]:
    return list(dict.fromkeys(node for run in runs.runs for node in run.nodes))


@contextmanager
def _reservation(setup: SmokeSetup, nodes: Collection[str], minutes: int, *, purge: bool = True) -> Iterator[str]:
    """Reserve these nodes and yield the reservation's name; "" without nodes."""
    acceptance = setup.cluster.acceptance
    if not nodes or acceptance is None:
        yield ""
        return
    with reserved(setup.head, [*nodes], acceptance.run_as, minutes, setup.listener.say, purge=purge) as name:
        yield name


def drain_blamed(head: Head, tests: Verified, listener: Listener) -> tuple[dict[str, str], dict[str, str]]:
    """Drain each node that a verdict blames, or that isolation names as bad by itself; with the reasons.

    At most a tenth of the tested nodes, and at least one, are drained. Also gives those beyond that, with the reasons.
    """
    verdicts = [result.verdict for result in tests.reached]
    most = max(1, len({node for verdict in verdicts for node in verdict.nodes}) // NODES_A_DRAIN)
    drained, beyond = dict[str, str](), dict[str, str]()
    for verdict in (verdict for verdict in verdicts if verdict.status in BLAMES):
        for node, detail in _blames(verdict):
            if node in drained or node in beyond:
                continue
            reason = f"smoke test {verdict.test} {verdict.status.replace('_', ' ')}: {detail}"
            if len(drained) >= most:
                beyond[node] = f"{reason}; one verification drains at most {most}: verify again, or drain it by hand"
                continue
            try:
                drain(head, node, verdict.nodes, reason)
            except ReservationError as error:
                listener.say(str(error))
                continue
            drained[node] = reason
            listener.say(f"{node} drained: {reason}")
    for node, explanation in beyond.items():
        listener.say(f"{node} not drained: {explanation}")
    return drained, beyond


def _blames(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """Yield the nodes that a verdict blames, each by itself, and why."""
    if verdict.node is not None:
        yield verdict.node, verdict.detail
    for suspect in verdict.isolation.named if verdict.isolation else ():
        if suspect.verdict == "bad" and len(suspect.nodes) == 1:
            yield suspect.nodes[0], f"{suspect.part}: {suspect.detail}"


def _gated(setup: SmokeSetup, usable: Usable, request: VerifyRequest, run: Run) -> Verification:
    """Test a drained node inside a reservation, and resume it only if it passed everything."""
    node, began_s = request.gate or "", time.time()
    cluster, head = setup.cluster, setup.head
    reason = gate_reason(cluster, usable, node)
    out = {name: problem for name, problem in usable.out.items() if name != node}
    in_use = busy(
        head, [worker.name for worker in cluster.workers], cluster.acceptance.run_as if cluster.acceptance else ""
    )
    if node in in_use:
        raise GateError(f"{node} is drained, and {in_use[node]} still runs there", "wait until it has ended")
    level = "standard" if request.names else request.level
    runs = asked(gate_runs(cluster, node, out, in_use, level), request.names, None)
    if not runs.runs:
        waits = runs.waiting[0].held if runs.waiting else {}
        problem = f"its partners are busy: {'; '.join(waits.values())}" if waits else "no test runs on it"
        raise GateError(f"{node} cannot be tested: {problem}", "name it under acceptance.tests, or wait")
    minutes = _minutes(cluster, runs)
    failed = ""
    with (
        _reservation(setup, _nodes(runs), minutes + _LATER_MIN, purge=False) as reservation,
        drained_unless_passed(head, node, reason, minutes * 60) as ends,
    ):
        setup.listener.say(f"{node} resumed for tests only; a timer drains it again if this run is killed")
        tests = run_chosen(setup, usable.recorded, runs, out, reservation)
        failed = not_passed(tests, node)
        ends(failed)
    drains = {node: failed} if failed else {}
    return Verification(tests, run, began_s, time.time(), in_use, drains, resumed=() if failed else (node,))


def gate_reason(cluster: Cluster, usable: Usable, node: str) -> str:
    """Return the reason of a node's drain. Raises GateError if it is not drained, or cannot be tested."""
    problem = usable.out.get(node, "")
    state, reason = usable.slurm_state(cluster, node)
    if problem.startswith(UNREACHABLE):
        raise GateError(f"{node} is {problem}", f"fix it, then hpcforge verify --gate {node}")
    if not drained(state):
        listed = f"Slurm has it as {state.lower()}" if state else "Slurm does not know it"
        raise GateError(f"{node} is not drained: {listed}", f"hpcforge verify --limit {node} tests a node in service")
    return reason or "not tested since it was drained"


def not_passed(tests: Verified, node: str) -> str:
    """Return the reason for which a node stays drained; "" if it passed every test."""
    bad = [result.verdict for result in tests.reached if not result.verdict.passed]
    if bad:
        return f"smoke test {bad[0].test} {bad[0].status.replace('_', ' ')}: {bad[0].detail}"
    if tests.waiting:
        return f"smoke test {tests.waiting[0].tests[0]} not run: no idle partner"
    without = [result.verdict.test for result in tests.reached if node not in result.verdict.nodes]
    if without or not tests.reached:
        return f"no test ran on {node}"
    return ""
