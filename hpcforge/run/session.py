"""One apply, from the first observation of the nodes to its line in the history."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Protocol

from hpcforge import __version__
from hpcforge.engines import Engines
from hpcforge.engines.tasks import Engine
from hpcforge.errors import UsageError
from hpcforge.host.commit import Commit
from hpcforge.plan.changes import Scope
from hpcforge.plan.plan import Plan
from hpcforge.plan.roster import LastRun, Roster, next_roster
from hpcforge.plan.stale import drop_nodes, stale_nodes
from hpcforge.run import leftover
from hpcforge.run.apply import Apply
from hpcforge.run.make_plan import compare, remark
from hpcforge.run.observe import wait_for_others
from hpcforge.run.records import lease as leases
from hpcforge.run.records.history import Copy, expected_s, past, write_log
from hpcforge.run.records.lease import Lease
from hpcforge.run.result import ApplyResult, Operator, Run, begin
from hpcforge.run.site import Goal, Site, keep_revoked
from hpcforge.run.stages import Arrive
from hpcforge.run.survey import Survey

_OTHERS_S = 900.0  # the longest wait for the last steps of a dead run
_TAKING_BACK_S = 60.0  # after that and `rollout.confirm_wait`: the longest wait for a node that reverts a change
_LOOK_BACK = 100  # past runs for the estimate of the time


class InstallingNodes(Protocol):
    """Nodes that get their operating system meanwhile: `hpcforge.metal.arrivals`, which few runs need to import."""

    site: Site  # with the host keys of the nodes that have one

    def under_way(self) -> tuple[str, ...]:
        """Return the nodes whose installation has not ended."""

    def arriving(
        self, site: Site, nodes: Sequence[str], engines: Engines, scope: Scope, run: Run, say: Callable[[str], None]
    ) -> Mapping[str, Arrive]:
        """Return what a run asks again and again for each of these nodes."""


@dataclass(frozen=True)
class RunOptions:
    """The options of an apply."""

    made: Plan | None  # an earlier plan; None: make one now
    plan_again: str  # the command that makes another one
    strict: bool
    confirm: Callable[[int], None] | None  # asks whether N nodes may be changed, and raises if not
    lock_timeout_s: float
    args: tuple[str, ...]  # the words of the command line after the verb, for the history
    stop: Callable[[], bool]  # turns true when no further work should begin
    exit_code: Callable[
        [ApplyResult, bool], int
    ]  # of what was done, and of a run that lost the lease to another (True)


def apply_site(
    engines: Engines,
    site: Site,
    goal: Goal,
    options: RunOptions,
    listener: Operator,
    arrivals: InstallingNodes | None = None,
) -> tuple[Plan, ApplyResult, int]:
    """Look, ask, do and record; the plan, its result and the exit status. `arrivals`: nodes being installed.

    Raises:
        LeaseHeldError: another apply is at work.
        OlderError: a newer hpcforge has been at work here.
        UsageError: a node has got another name, or with `strict` is not as when the plan was made.
        KeyboardInterrupt: told to stop before anything had begun.
    """
    session = _Session(site, goal, options, engines, listener, arrivals)
    with session.until_end:
        return session.go()


def expected_time_s(site: Site, plan: Plan) -> float | None:
    """Return the time that earlier runs like this took, by this host's copy of the history; None if there is none."""
    runs, _ = Copy.of(site.kept_as).read(site.cluster.name, _LOOK_BACK)
    return expected_s(runs, [step.role for step in plan.changes.steps], len(plan.touched))


class _Session:
    def __init__(
        self,
        site: Site,
        goal: Goal,
        options: RunOptions,
        engines: Engines,
        listener: Operator,
        arrivals: InstallingNodes | None,
    ) -> None:
        # One list for all observations: a node that answers the second was planned as an installing one.
        arriving = tuple(name for name in goal.nodes if arrivals and name in arrivals.under_way())
        self.site, self.goal, self.options = site, replace(goal, arriving=arriving), options
        self.engines, self.listener, self.stop, self.until_end = engines, listener, options.stop, ExitStack()
        self.arrivals = arrivals
        self.run = begin(site.cluster.name, __version__)
        self.head = site.cluster.slurm.controller
        self.lease: Lease | None = None
        self.commit: Commit | None = None  # of the blueprint, after the first observation
        self.started_s = time.time()

    @property
    def engine(self) -> Engine:
        """What asks the nodes: the lease, once it is held, since it beats while it waits for them."""
        return self.lease or self.engines

    def go(self) -> tuple[Plan, ApplyResult, int]:
        """Observe, agree, apply, and record."""
        survey, plan, out = self._agree()
        if self.stop():
            raise KeyboardInterrupt  # nothing has begun
        if self.options.made is None:  # an earlier plan is for the secrets of its time
            self.goal = survey.goal
        if plan.pending:
            keep_revoked(self.site, self.goal)
        receipts = [observation.receipt for observation in (*survey.observed.values(), survey.head)]
        commit = self.commit.id if self.commit else None
        self.run = replace(self.run.numbered(receipts, survey.roster), commit=commit)
        if self.lease is not None:
            self.lease.number = self.run.number
        if survey.tests:
            leftover.clear(self.engine, self.site.cluster, self.listener.say)
        apply = Apply(
            self.engine,
            self.site,
            plan,
            survey,
            self.goal,
            self.run,
            self.listener,
            self._has_to_stop,
            self._arriving(),
        )
        result = replace(apply.carry_out(), moved=out)
        if self.arrivals is not None:
            self.site = self.arrivals.site  # with their host keys, for the roster
        overtaken = self.lease is not None and self.lease.lost is not None and not self.stop()
        exit_status = self.options.exit_code(result, overtaken)
        departed = [leaver.node for leaver in survey.leaving if _has_left(leaver.node, result)]
        roster = self._roster(survey, result, departed)
        # A killed run may have done all but this. The next run does it, even without other work.
        if plan.pending or (roster is not None and roster.nodes != survey.roster.nodes):
            self._record(result, exit_status, roster, (departed, survey.strangers))
        return plan, result, exit_status

    def _agree(self) -> tuple[Survey, Plan, dict[str, str]]:
        """Agree on the work with other runs, the operator, and the nodes again."""
        survey, present = self._look()
        until_s = None
        while survey.at_work and (until_s is None or time.monotonic() < until_s):
            if self.lease is None:
                self._lock()
            with self.listener.waits("others"):
                wait_for_others(self.engine, survey.at_work, _OTHERS_S, self.listener.say)
            until_s = until_s or time.monotonic() + self.site.cluster.rollout.confirm_wait_s + _TAKING_BACK_S
            survey, present = self._look()
        self.commit = remark(self.site, survey, self.listener.say)
        plan, out = present, dict[str, str]()
        if self.options.made is not None:
            plan, out = self._still_holds(self.options.made, present)
        self.listener.plan(plan, out)
        if not plan.pending:
            return survey, plan, out
        if self.options.confirm is not None:
            self.options.confirm(len(plan.touched) + len(plan.changes.leaving))
        if self.lease is None:
            self._lock()
            if (
                self.options.confirm is not None or self.options.lock_timeout_s
            ):  # minutes, and another run, may have passed
                survey, present = self._look()
                plan, since = self._still_holds(plan, present)
                out |= since
                self.listener.warn_moved(since)
        return survey, plan, out

    def _still_holds(self, made: Plan, present: Plan) -> tuple[Plan, dict[str, str]]:
        """Return an earlier plan without the nodes that have changed since; those, and why."""
        out = stale_nodes(made, present)
        if out and self.options.strict:
            names = ", ".join(out)
            raise UsageError(f"{names}: changed since the plan was made", f"make a new one: {self.options.plan_again}")
        return drop_nodes(made, out, present), out

    def _look(self) -> tuple[Survey, Plan]:
        self.listener.detail(f"looking at {len(self.goal.nodes)} nodes")
        with self.listener.phase("observe"):
            return compare(self.site, self.engines, self.engine, self.goal, self.listener.say)

    def _arriving(self) -> Mapping[str, Arrive]:
        if self.arrivals is None:
            return {}
        goal, say = self.goal, self.listener.say
        return self.arrivals.arriving(self.site, goal.arriving, self.engines, goal.scope, self.run, say)

    def _lock(self) -> None:
        wait_s, say = self.options.lock_timeout_s, self.listener.say
        with self.listener.waits("lease"):
            lease = leases.take(self.engines, self.head, self.run.id, self.run.who, wait_s, say, self.stop)
        self.lease = self.until_end.enter_context(lease)

    def _has_to_stop(self) -> bool:
        return self.stop() or (self.lease is not None and self.lease.lost is not None)

    def _roster(self, survey: Survey, result: ApplyResult, departed: Sequence[str]) -> Roster | None:
        """Return the new roster; None if the old one could not be read, and must not be overwritten."""
        if survey.head.unreachable is not None:
            return None
        run = self.run
        last = LastRun(run.number, run.id, run.who, time.time(), run.hpcforge, run.commit)
        reached = [name for name in survey.observed if name not in result.result.lost]
        return next_roster(survey.roster, self.site.cluster, last, reached, departed)

    def _record(
        self,
        result: ApplyResult,
        exit_status: int,
        roster: Roster | None,
        leavers: tuple[Sequence[str], Collection[str]],
    ) -> None:
        """Write a line in the history, and the roster, on the head and on this host."""
        departed, strangers = leavers
        past_run = past(
            self.run,
            result,
            args=self.options.args,
            dirty=bool(self.commit and self.commit.dirty),
            started_s=self.started_s,
            exit_code=exit_status,
            left=departed,
        )
        for problem in write_log(self.engine, self.head, past_run, roster, self.site.kept_as, strangers):
            self.listener.say(problem)


def _has_left(name: str, result: ApplyResult) -> bool:
    outcomes = result.result.outcomes.get(name, {}).values()
    return name in result.result.abandoned or (bool(outcomes) and all(outcome.status == "done" for outcome in outcomes))
