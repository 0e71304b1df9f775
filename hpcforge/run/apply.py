"""Apply a plan, until the cluster is configured, admitted and verified."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster
from hpcforge.downloads.collections import unpack
from hpcforge.engines.tasks import Command, Engine, command_failure
from hpcforge.plan.admission import DeclaredWorker, DrainOrder, drains, judged, shortfalls, unsettled
from hpcforge.plan.desired import Desired
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import Plan
from hpcforge.run import down_workers
from hpcforge.run.engine_head import EngineHead, owner
from hpcforge.run.executor import StartState, execute
from hpcforge.run.records.history import store_verdicts
from hpcforge.run.records.lease import Lease, watched
from hpcforge.run.result import UNREACHABLE, Admission, ApplyResult, Listener, Run, RunResult, Verified
from hpcforge.run.site import artifacts_path
from hpcforge.run.smoke_tests import SmokeSetup, after, run_tests
from hpcforge.run.stages import Arrive
from hpcforge.run.survey import Survey
from hpcforge.slurm.commands import update_nodes
from hpcforge.slurm.down_nodes import DownWorker
from hpcforge.slurm.nodes import SETTLE_S, SLURM_NODES_COMMAND, down, drained, not_scheduled, parse_slurm_nodes
from hpcforge.verify.jobs import StoppedError
from hpcforge.verify.verdict_records import VERDICTS_PATH, Recorded, load

if TYPE_CHECKING:
    from hpcforge.run.site import Goal, Site


# Admission after a run: drain workers with a shortfall, resume workers without one.


_TIMEOUT_S = 30.0
_POLL_S = 0.5
_PATIENCE_S = 15.0  # a daemon that starts registers within seconds


def admit(
    engine: Engine,
    plan: Plan,
    facts: Mapping[str, Mapping[str, Any]],
    settle_s: float,
    ended: RunResult,
    lost: Callable[[Sequence[str]], Container[str]] = lambda _: (),
) -> Admission:
    """Judge the workers by their latest facts (by node), and send Slurm the difference.

    `ended` is the result of the run. Its failed and lost nodes are not resumed. Restarted daemons have up to
    `settle_s` seconds to register before and after that. Workers that the run did not finish have no such time: it
    may never have started their daemons. `lost` gets the workers that have not registered after 15 s, and returns
    those to give up.
    """
    keep, unfinished = {*ended.failed(), *ended.lost}, ended.unfinished()
    workers = tuple(worker for worker in plan.policy.declared if worker.node in facts)
    awaited = tuple(worker for worker in workers if worker.node not in unfinished)
    short = tuple(
        shortfall for worker in workers for shortfall in shortfalls(worker, facts[worker.node], gpus_ready=True)
    )
    try:
        states = _settled(engine, plan.policy.controller, awaited, settle_s, lost)
        orders = drains(short, judged(workers, states), keep)
        for (state, reason), nodes in _together(orders).items():
            _ask(engine, plan.policy.controller, *update_nodes(fold(nodes), state, reason))
        if orders:
            states = _settled(engine, plan.policy.controller, awaited, settle_s, lost)
    except _SlurmError as error:
        return Admission(short, (), {}, str(error))
    # Workers outside of `awaited` may be about to register.
    final = judged(workers, states) | {n: state for n, state in states.items() if drained(state[0]) or down(state[0])}
    return Admission(short, orders, not_scheduled(final), None)


def _together(orders: Iterable[DrainOrder]) -> dict[tuple[str, str], list[str]]:
    """Return the nodes by new state and reason: a thousand nodes with the same fault need one command."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for order in orders:
        reason = order.reason if order.action == "drain" else ""
        nodes.setdefault((order.action.upper(), reason), []).append(order.node)
    return nodes


class _SlurmError(Exception):
    """A command of Slurm failed on the controller."""


def _settled(
    engine: Engine,
    controller: str,
    workers: Sequence[DeclaredWorker],
    settle_s: float,
    lost: Callable[[Sequence[str]], Container[str]],
) -> dict[str, tuple[str, str]]:
    """Return Slurm's states of its nodes, after the last of these workers has registered or time is up."""
    began = time.monotonic()
    given_up: Container[str] | None = None
    while True:
        states = parse_slurm_nodes(_ask(engine, controller, *SLURM_NODES_COMMAND))
        awaited = {n: s for n, s in judged(workers, states).items() if not given_up or n not in given_up}
        waited_s = time.monotonic() - began
        if not unsettled(awaited) or waited_s >= settle_s:
            return states
        if given_up is None and waited_s >= _PATIENCE_S:
            given_up = lost([name for name, state in awaited.items() if unsettled({name: state})])
            continue
        time.sleep(_POLL_S)


def _ask(engine: Engine, node: str, *argv: str) -> str:
    data = engine.run(Command(f"slurm:{time.monotonic_ns()}", node, argv, "", "root", _TIMEOUT_S)).data
    if not data["ok"]:
        command = "scontrol show node" if argv == SLURM_NODES_COMMAND else shlex.join(argv)
        raise _SlurmError(command_failure(command, data))
    return str(data["stdout"])


@dataclass(frozen=True)
class Apply:
    """A plan to carry out, the state of the nodes before, and the run."""

    engine: Engine
    site: Site
    plan: Plan
    survey: Survey
    goal: Goal
    run: Run
    listener: Listener
    stop: Callable[[], bool]
    arriving: Mapping[str, Arrive] = field(default_factory=dict)  # nodes that are being installed

    def carry_out(self) -> ApplyResult:
        """Run the plan, admit workers, and verify what changed or was not verified yet.

        Where no role brings a scheduler, nothing is admitted or verified.
        """
        self._fetch_artifacts()
        recorded = _recorded(self.engine, self.site.cluster, self.plan, self.survey.head, self.listener)
        result = self._configure()
        reason = self._unverifiable(result)
        if reason is not None:
            return ApplyResult(result, tests=Verified(recorded=recorded, note=reason))
        admission, down = self._admit(result)
        if admission.error:
            note = f"not verified: Slurm: {admission.error}"
            return ApplyResult(result, admission, Verified(recorded=recorded, note=note), admission.error)
        tests = self._verify(result, admission, down, recorded)
        return ApplyResult(result, admission, tests, down=down)

    def _fetch_artifacts(self) -> None:
        """Fetch the depot's files, and Ansible's collections.

        It can take minutes, in which the lease must stay alive.
        """

        def progress(text: str) -> None:
            self.listener.detail(text)
            if isinstance(self.engine, Lease):
                self.engine.stay_alive()

        changes, folder = self.plan.changes, artifacts_path()
        archives = tuple(dict.fromkeys(collection.archive for collection in changes.collections))
        if changes.artifacts or archives:
            from hpcforge.downloads.artifacts import fetch  # noqa: PLC0415 - few plans have artifacts

            with self.listener.phase("fetch artifacts"):
                fetch((*changes.artifacts, *archives), folder, progress, self.listener.tally)
                unpack(changes.collections, folder)

    def _configure(self) -> RunResult:
        leaving = [leaver.node for leaver in self.plan.changes.leaving]
        self.listener.nodes([*self.plan.touched, *leaving])
        with self.listener.phase("configure"):
            listen = watched(self.engine, frozenset(leaving), self.arriving, self.listener.event)
            start = StartState(_observed_facts(self.survey.observed), self.arriving)
            return execute(self.plan, self.goal.secrets, self.engine, listen, self.stop, self.run, start)

    def _unverifiable(self, result: RunResult) -> str | None:
        """Return the reason for which no worker is admitted and no test runs; None if there is none."""
        controller, scheduler = self.site.cluster.slurm.controller, self.plan.policy.scheduler
        configured = result.outcomes.get(controller, {}).get(scheduler) if scheduler else None
        if result.interrupted:
            return "interrupted before verification"
        if not scheduler:
            return "not verified: none of these roles brings a scheduler"
        if controller in result.lost:
            return f"not verified: {controller} is unreachable"
        if configured is not None and configured.status != "done":
            return f"not verified: {scheduler} on {controller} is not done"
        return None

    def _admit(self, result: RunResult) -> tuple[Admission, tuple[DownWorker, ...]]:
        """Return the admission, and the other workers that take no job."""
        observed, plan = self.survey.observed, self.plan
        with self.listener.phase("admit"):
            settle_s = SETTLE_S if _may_change(plan) else 0.0
            names = _in_slurm(plan, self.survey, result)
            workers = _Workers(self.engine, self.site.cluster, self.goal.desired, plan, names, observed)
            admission = admit(self.engine, plan, latest_facts(observed, result), settle_s, result, workers.lost)
            # Slurm's reason already names the shortfall of these.
            short = {shortfall.node for shortfall in admission.shortfalls}
            down = () if admission.error else tuple(worker for worker in workers.down() if worker.node not in short)
        return admission, down

    def _verify(
        self, result: RunResult, admission: Admission, down: Sequence[DownWorker], recorded: Recorded
    ) -> Verified:
        cluster = self.site.cluster
        resumed = [order.node for order in admission.ordered if order.action == "resume"]
        recorded = after(cluster, recorded, resumed)
        head = EngineHead(self.engine, cluster.slurm.controller, owner(self.run), self.stop)
        setup = SmokeSetup(self.engine, head, cluster, self.listener, plans=self.site.fabric_plans)
        try:
            out = left_out(result, admission, down)
            return run_tests(setup, recorded, self.plan.policy.verify, out)
        except StoppedError:
            result.interrupted = True
            return Verified(recorded=recorded, note="interrupted while it was verified")


@dataclass
class _Workers:
    """The workers that Slurm should have, and the causes for those that take no job."""

    engine: Engine
    cluster: Cluster
    desired: Desired
    plan: Plan
    names: Sequence[str]
    observed: Mapping[str, Observation]  # before the run changed anything
    explained: dict[str, DownWorker] = field(default_factory=dict)

    def lost(self, names: Sequence[str]) -> set[str]:
        """Return the workers that will not register, since a cause is known."""
        self._explain(down_workers.look(self.engine, self.cluster, names, {}))
        return {name for name in names if name in self.explained and self.explained[name].causes}

    def down(self) -> tuple[DownWorker, ...]:
        """Return the workers that take no job; those of the plan if none can have registered since."""
        if not _may_change(self.plan):
            return self.plan.state.down
        changed = {*self.plan.touched, *(worker.node for worker in self.plan.state.down)}
        before = {name: observation for name, observation in self.observed.items() if name not in changed}
        workers = down_workers.look(self.engine, self.cluster, self.names, before)
        self._explain(workers)
        return tuple(
            _with_causes(worker, self.explained[worker.node]) for worker in workers if worker.node in self.explained
        )

    def _explain(self, workers: Sequence[DownWorker]) -> None:
        new = [worker for worker in workers if worker.node not in self.explained]
        explained = down_workers.explained(self.engine, self.cluster, self.desired, new)
        self.explained |= {worker.node: worker for worker in explained}


def _with_causes(worker: DownWorker, explained: DownWorker) -> DownWorker:
    return replace(worker, reason=worker.reason or explained.reason, causes=explained.causes, checked=explained.checked)


def _may_change(plan: Plan) -> bool:
    """Return True if workers may register: after a change, or after a fix by hand a moment ago."""
    return plan.pending or any(not worker.causes for worker in plan.state.down)


def _in_slurm(plan: Plan, survey: Survey, result: RunResult) -> list[str]:
    """Return the nodes of the plan that were configured before, or just now to the end."""
    finished = {
        node
        for node, outcomes in result.outcomes.items()
        if outcomes and all(outcome.status in ("done", "failed") for outcome in outcomes.values())
    }
    configured = finished | {*down_workers.configured(survey.observed)}
    return [name for name in plan.nodes if name in configured and name not in result.lost]


def latest_facts(observed: Mapping[str, Observation], result: RunResult) -> dict[str, dict[str, Any]]:
    """Return the last facts of nodes, by name, without lost nodes; drivers report only when observed."""
    earlier = _observed_facts(observed)
    facts = earlier | {name: {**earlier.get(name, {}), **later} for name, later in result.facts.items()}
    return {name: node_facts for name, node_facts in facts.items() if name not in result.lost}


def _observed_facts(observed: Mapping[str, Observation]) -> dict[str, dict[str, Any]]:
    return {name: dict(observation.facts) for name, observation in observed.items() if observation.facts}


def _recorded(engine: Engine, cluster: Cluster, plan: Plan, head: Observation, listener: Listener) -> Recorded:
    """Return the last verdicts, without those that the plan will change: recorded first, in case the run is cut off."""
    before = load(head.reads.get(VERDICTS_PATH))
    if before.problem:
        listener.say(f"the last verdicts cannot be read ({before.problem}): testing again")
    recorded = after(cluster, before, plan.changes.felt)
    if recorded != before:
        problem = store_verdicts(engine, cluster.slurm.controller, recorded)
        if problem:
            listener.say(f"the list of tests to repeat could not be written on the head: {problem}")
    return recorded


def left_out(result: RunResult, admission: Admission, down: Sequence[DownWorker] = ()) -> dict[str, str]:
    """Return workers that tests must not use, with the reason."""
    out = {node: UNREACHABLE + reason for node, reason in result.lost.items()}
    for node, roles in result.failed().items():
        out.setdefault(node, f"{roles[0][0]} failed")
    for node, outcomes in result.outcomes.items():
        skipped = [role for role, outcome in outcomes.items() if outcome.status != "done"]
        if skipped:
            out.setdefault(node, f"{skipped[0]} not done")
    for shortfall in admission.shortfalls:
        out.setdefault(shortfall.node, f"{shortfall.what} {shortfall.observed}, declared {shortfall.declared}")
    for node, state in admission.not_scheduled.items():
        out.setdefault(node, f"Slurm: {state}")
    for worker in down:
        out.setdefault(worker.node, worker.sentence)
    return out
