"""From a plan to a configured, admitted and verified cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Engine, Event
from hpcforge.plan.observed import Observed
from hpcforge.plan.plan import Plan
from hpcforge.run.admit import Admission, admit
from hpcforge.run.head import EngineHead, owner
from hpcforge.run.lease import Lease
from hpcforge.run.observe import UNREACHABLE
from hpcforge.run.result import Result
from hpcforge.run.run import Run
from hpcforge.run.verdict_store import store_verdicts
from hpcforge.run.walk import walk
from hpcforge.run.wheels import fetch
from hpcforge.verify.jobs import StoppedError
from hpcforge.verify.verdicts import VERDICTS_PATH, Verdict, load
from hpcforge.verify.verify import verify

# A slurmd registers within seconds of its own start; after slurmctld's, within one ping of it (SlurmdTimeout / 3).
_SETTLE_S = 45.0


class Listener(Protocol):
    """Who is told what goes on."""

    def say(self, text: str) -> None:
        """Something worth a line."""

    def detail(self, text: str) -> None:
        """What is being done just now."""

    def nodes(self, names: Collection[str]) -> None:
        """Which nodes are about to be worked on."""

    def event(self, event: Event) -> None:
        """An engine's event, or one of the walk's."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time what happens inside, under a name."""


@dataclass(frozen=True)
class Applied:
    """What an apply came to. `verdicts_age_s` is None where the tests ran just now."""

    result: Result
    admission: Admission | None
    verdicts: tuple[Verdict, ...]
    verdicts_age_s: float | None
    note: str  # why there are no verdicts, or what became of them
    error: str | None
    moved: Mapping[str, str] = field(default_factory=dict)  # nodes for which the plan did not hold any more, and why


def apply_plan(
    engine: Engine,
    cluster: Cluster,
    plan: Plan,
    observed: Mapping[str, Observed],
    head: Observed,
    secrets: Mapping[str, bytes],
    artifacts: Path,
    listener: Listener,
    stop: Callable[[], bool],
    run: Run,
) -> Applied:
    """Run the plan, admit workers, and verify if anything changed; else bring back the last verdicts.

    `head` is the controller's answer. Where no role brings a scheduler, nothing is admitted or verified.
    """
    _fetch_artifacts(engine, plan, artifacts, cluster, listener)
    listener.nodes([*plan.touched, *(one.node for one in plan.leaving)])
    with listener.phase("configure"):
        result = walk(plan, secrets, engine, listener.event, stop, run)
    if result.interrupted:
        return Applied(result, None, (), None, "interrupted before verification", None)
    if not plan.scheduler:
        return Applied(result, None, (), None, "not verified: none of these roles brings a scheduler", None)
    controller = cluster.slurm.controller
    if controller in result.lost:
        return Applied(result, None, (), None, f"not verified: {controller} is unreachable", None)
    configured = result.outcomes.get(controller, {}).get("slurm_controller")
    if configured is not None and configured.status != "done":
        return Applied(result, None, (), None, f"not verified: slurm_controller on {controller} is not done", None)
    facts = {name: seen.facts for name, seen in observed.items() if seen.facts} | result.facts
    with listener.phase("admit"):
        at_hand = {name: f for name, f in facts.items() if name not in result.lost}
        unwell = {*result.failed(), *result.lost}
        admission = admit(engine, plan, at_hand, _SETTLE_S if plan.pending else 0.0, unwell)
    if admission.error:
        return Applied(result, admission, (), None, f"not verified: Slurm: {admission.error}", admission.error)
    if not (plan.pending or admission.ordered):
        text = head.reads.get(VERDICTS_PATH)
        last = load(text) if text is not None else None
        if last is not None and last.problem:
            listener.say(f"the last verdicts cannot be read ({last.problem}): testing again")
        elif last is not None and last.time_s is not None:
            age_s = max(0.0, time.time() - last.time_s)
            return Applied(result, admission, last.verdicts, age_s, "", None)
    try:
        verdicts, note = run_tests(engine, cluster, left_out(result, admission), listener, run, stop)
    except StoppedError:
        result.interrupted = True
        return Applied(result, admission, (), None, "interrupted while it was verified", None)
    return Applied(result, admission, verdicts, None, note, None)


def run_tests(
    engine: Engine, cluster: Cluster, out: Mapping[str, str], listener: Listener, run: Run, stop: Callable[[], bool]
) -> tuple[tuple[Verdict, ...], str]:
    """Verify on all workers but those left `out`, and keep the verdicts on the head.

    Raises:
        StoppedError: `stop()` turned true, and the test's job has been cancelled.
    """
    if cluster.acceptance is None:
        return (), "not verified: the blueprint has no acceptance section"
    controller = cluster.slurm.controller
    if out.get(controller, "").startswith(UNREACHABLE):
        return (), f"not verified: {controller} is {out[controller]}"
    head = EngineHead(engine, controller, owner(run), stop)
    with listener.phase("verify"):
        verdicts = verify(cluster, head, out, lambda test, text: listener.say(f"{test}: {text}"))
        problem = store_verdicts(engine, controller, verdicts, time.time())
    return verdicts, f"the verdicts could not be kept on the head: {problem}" if problem else ""


def left_out(result: Result, admission: Admission) -> dict[str, str]:
    """Workers that tests must not count on, and why."""
    out = {node: UNREACHABLE + reason for node, reason in result.lost.items()}
    for node, roles in result.failed().items():
        out.setdefault(node, f"{roles[0][0]} failed")
    for node, outcomes in result.outcomes.items():
        skipped = [role for role, outcome in outcomes.items() if outcome.status != "done"]
        if skipped:
            out.setdefault(node, f"{skipped[0]} not done")
    for one in admission.shortfalls:
        out.setdefault(one.node, f"{one.what} {one.observed}, declared {one.declared}")
    for node, state in admission.not_scheduled.items():
        out.setdefault(node, f"Slurm: {state}")
    return out


def _fetch_artifacts(engine: Engine, plan: Plan, artifacts: Path, cluster: Cluster, listener: Listener) -> None:
    """Fetch pinned wheels if a node will be handed some. It can take minutes, in which the lease must stay alive."""

    def progress(text: str) -> None:
        listener.detail(text)
        if isinstance(engine, Lease):
            engine.stay_alive()

    wanted = any(c.opaque and "wheels" in c.opaque.opaque.inputs for s in plan.steps for c in s.changes.values())
    if wanted and cluster.pytorch is not None and cluster.pytorch.wheels:
        with listener.phase("fetch wheels"):
            fetch(cluster.pytorch.wheels, artifacts, progress)
