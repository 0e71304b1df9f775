"""`hpcforge apply`: make the nodes what the blueprint says, and prove that they work together."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from hpcforge import __version__
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.plan_files import read_plan
from hpcforge.cli.planning import Choice, Comparison, choose, compare, remark
from hpcforge.cli.program import typed
from hpcforge.cli.rehearsals import named
from hpcforge.cli.site import Goal, Site, artifacts_path, goal, keep_revoked, open_engines, open_site
from hpcforge.cli.stopping import in_good_order
from hpcforge.cli.trust import trust_new
from hpcforge.cli.usage import UsageError
from hpcforge.engines import Engines
from hpcforge.engines.tasks import Engine
from hpcforge.plan.moved import moved, without
from hpcforge.plan.plan import Plan
from hpcforge.plan.roster import LastRun, Roster, next_roster
from hpcforge.report import printing
from hpcforge.report.apply_text import next_steps, nodes_table, phases_line
from hpcforge.report.progress import Progress
from hpcforge.report.stays_text import stays_text
from hpcforge.report.stream import Stream
from hpcforge.report.verdicts_text import verdicts_text
from hpcforge.run import lease as leases
from hpcforge.run import leftover
from hpcforge.run.apply import Applied, apply_plan
from hpcforge.run.commit import Commit
from hpcforge.run.history import past, write_log
from hpcforge.run.lease import Lease
from hpcforge.run.observe import wait_for_others
from hpcforge.run.run import begin
from hpcforge.run.testing import Verified

_OTHERS_S = 900.0  # how long the last steps of a run that is gone are waited for
_STOPPING = "running steps finish, then it stops; press again to stop at once"
_TAKING_BACK_S = 60.0  # and how long after that, and `rollout.confirm_wait`, a node that takes back what it did


def apply(
    *,
    blueprint: Path,
    inventory: Path | None,
    lab: str | None,
    identity: Path | None,
    yes: bool,
    limit: list[str] | None,
    exclude: list[str] | None,
    only: list[str] | None,
    force: list[str] | None,
    verify: str | None,
    plan_file: Path | None,
    strict: bool,
    lock_timeout: float,
    trust: bool,
    as_json: bool,
) -> int:
    """Do what the help of `hpcforge apply` says; the exit status."""
    if plan_file is not None and (limit or exclude or only or force or verify):
        hint = "leave out --limit, --exclude, --only, --force and --verify, or --plan"
        raise UsageError("a plan is applied as it is", hint)
    site = open_site(blueprint, inventory, lab, identity)
    site = trust_new(site) if trust else site
    wanted = goal(site, make=True)
    given = {"inventory": inventory, "lab": lab, "identity": identity}
    chosen = {"limit": limit, "exclude": exclude, "only": only, "force": force, "verify": verify}
    plan_again = typed("plan", blueprint, **given, output=plan_file)
    made = read_plan(plan_file, wanted.desired, wanted.secrets, plan_again) if plan_file is not None else None
    choice = choose(site, wanted.desired, limit, exclude, only, force, made.verify if made else verify)
    with (
        open_engines(site) as engines,
        Progress(live=not (as_json and printing.on_terminal())) as human,  # two cannot write to one screen
        in_good_order(human.say, _STOPPING) as stop,
        Stream(human, printing.line if as_json else None) as progress,
        ExitStack() as until_end,
    ):
        wishes = Wishes(made, plan_again, strict, yes, lock_timeout)
        work = _Apply(site, wanted, choice, wishes, engines, progress, stop, until_end)
        plan, done = work.go()
        code = work.code(done)
        progress.result(done, code)
    if not as_json:
        printing.result(nodes_table(plan, done.result, done.admission), "states")
        stays = stays_text(done.result.stays)
        printing.result(f"\n{stays}" if stays else "")
        apply_again = typed("apply", blueprint, **given)
        tested = verdicts_text(done.tests, apply_again, done.result.lost, time.time())
        printing.result(f"\n{tested}", "states")
    again = plan_again if plan_file is not None else typed("apply", blueprint, **given, **chosen, yes=yes)
    test_again = typed("verify", blueprint, inventory=inventory, lab=lab)
    printing.note(
        "\n"
        + phases_line(human.phases, human.elapsed_s)
        + next_steps(site.cluster, test_again, _rehearsal(site), done.admission)
    )
    if code not in (Exit.DONE, Exit.BELOW):
        printing.note(f"go on:        {again}\n")
    return code


def _rehearsal(site: Site) -> tuple[str, str] | None:
    """How to log in to a node of the rehearsal, and how to take it down, as typed where the operator is now."""
    if site.lab is None:
        return None
    this = named(site.loaded.blueprint_path, site.lab)
    return this.typed("ssh"), this.typed("down")


def exit_code(done: Applied) -> Exit:
    """The worst of what happened."""
    codes = [Exit.INTERRUPTED] * done.result.interrupted
    codes += [Exit.BUSY] * bool(done.result.busy)
    codes += [Exit.FAILED] * bool(done.result.failed() or done.error)
    codes += [Exit.UNREACHABLE] * bool(done.result.lost or done.result.abandoned)
    codes += [Exit.BELOW] * below(done.tests)
    codes += [Exit.BELOW] * bool(done.admission and done.admission.shortfalls)
    codes += [Exit.PENDING] * bool(done.result.deferred() or done.moved)
    return worst(codes)


def below(tests: Verified) -> bool:
    """Whether a test that ran is not passed; one that waits for users' jobs says nothing of the cluster."""
    now = [one.verdict for one in tests.reached if not one.verdict.waits_for]
    before = [one.last for one in tests.recorded.kept] if not tests.note else []
    return any(not verdict.passed for verdict in (*now, *before))


@dataclass(frozen=True)
class Wishes:
    """How it is to be done."""

    made: Plan | None  # a plan that was made before; None: whatever has to be done now
    plan_again: str  # how to make another one
    strict: bool
    yes: bool
    lock_timeout_s: float


class _Apply:
    """One apply: look, ask, hold the lease, do it, and write it down."""

    def __init__(
        self,
        site: Site,
        wanted: Goal,
        choice: Choice,
        wishes: Wishes,
        engines: Engines,
        progress: Stream,
        stop: Callable[[], bool],
        until_end: ExitStack,
    ) -> None:
        self.site, self.goal, self.choice, self.wishes = site, wanted, choice, wishes
        self.engines, self.progress, self.stop, self.until_end = engines, progress, stop, until_end
        self.run = begin(site.cluster.name, __version__)
        self.head = site.cluster.slurm.controller
        self.lease: Lease | None = None
        self.commit: Commit | None = None  # of the blueprint, once it was looked at
        self.started_s = time.time()

    @property
    def engine(self) -> Engine:
        """What asks the nodes: the lease, once it is held, since it beats while it waits for them."""
        return self.lease or self.engines

    def go(self) -> tuple[Plan, Applied]:
        """All of it; what was planned, and what it came to."""
        found, plan, out = self._agree()
        if self.stop():
            raise KeyboardInterrupt  # nothing has begun
        if self.wishes.made is None:  # a plan that was made before is for the secrets as they were then
            self.goal = found.goal
        if plan.pending:
            keep_revoked(self.site, self.goal)
        receipts = [seen.receipt for seen in (*found.survey.observed.values(), found.survey.head)]
        commit = self.commit.id if self.commit else None
        self.run = replace(self.run.numbered(receipts, found.survey.roster), commit=commit)
        if self.lease is not None:
            self.lease.number = self.run.number
        if found.survey.tests:
            leftover.clear(self.engine, self.site.cluster, self.progress.say)
        done = apply_plan(
            self.engine,
            self.site.cluster,
            plan,
            found.survey.observed,
            found.survey.head,
            self.goal.secrets,
            artifacts_path(),
            self.progress,
            self._has_to_stop,
            self.run,
        )
        done = replace(done, moved=out)
        left = [one.node for one in found.survey.leaving if _has_left(one.node, done)]
        roster = self._roster(found, done, left)
        # A run that was killed may have done everything but this; the next, with nothing else to do, makes up for it.
        if plan.pending or (roster is not None and roster.nodes != found.survey.roster.nodes):
            self._record(done, roster, left, found.survey.strangers)
        return plan, done

    def code(self, done: Applied) -> Exit:
        """What it ends with; a run that lost the lease to another was not interrupted by its operator."""
        overtaken = self.lease is not None and self.lease.lost is not None and not self.stop()
        return Exit.BUSY if overtaken else exit_code(done)

    def _agree(self) -> tuple[Comparison, Plan, dict[str, str]]:
        """What will be done, after everybody who has a say was asked: other runs, the operator, and the nodes again."""
        found = self._look()
        until_s = None
        while found.survey.at_work and (until_s is None or time.monotonic() < until_s):
            if self.lease is None:
                self._lock()
            with self.progress.human.phase("others"):
                wait_for_others(self.engine, found.survey.at_work, _OTHERS_S, self.progress.say)
            until_s = until_s or time.monotonic() + self.site.cluster.rollout.confirm_wait_s + _TAKING_BACK_S
            found = self._look()
        self.commit = remark(self.site, found.survey, self.progress.say)
        plan, out = found.plan, dict[str, str]()
        if self.wishes.made is not None:
            plan, out = self._still_holds(self.wishes.made, found.plan)
        self.progress.plan(plan, out)
        if not plan.pending:
            return found, plan, out
        ask = not self.wishes.yes
        if ask:
            _confirm(self.progress.human, len(plan.touched) + len(plan.leaving))
        if self.lease is None:
            self._lock()
            if ask or self.wishes.lock_timeout_s:  # minutes may have passed, and another run
                found = self._look()
                plan, since = self._still_holds(plan, found.plan)
                out |= since
                self.progress.warn_moved(since)
        return found, plan, out

    def _still_holds(self, made: Plan, now: Plan) -> tuple[Plan, dict[str, str]]:
        """A plan that was made before, less the nodes that have changed since; those, and why."""
        out = moved(made, now)
        if out and self.wishes.strict:
            names = ", ".join(out)
            raise UsageError(f"{names}: not as when the plan was made", f"make a new one: {self.wishes.plan_again}")
        return without(made, out, now), out

    def _look(self) -> Comparison:
        self.progress.detail(f"looking at {len(self.choice.nodes)} nodes")
        with self.progress.phase("observe"):
            return compare(self.site, self.engines, self.engine, self.goal, self.choice, self.progress.say)

    def _lock(self) -> None:
        wait_s, say = self.wishes.lock_timeout_s, self.progress.say
        with self.progress.human.phase("lease"):
            held = leases.take(self.engines, self.head, self.run.id, self.run.who, wait_s, say, self.stop)
        self.lease = self.until_end.enter_context(held)

    def _has_to_stop(self) -> bool:
        return self.stop() or (self.lease is not None and self.lease.lost is not None)

    def _roster(self, found: Comparison, done: Applied, left: Sequence[str]) -> Roster | None:
        """The roster from now on; None where the one before could not be asked for, and must not be written over."""
        if found.survey.head.unreachable is not None:
            return None
        run = self.run
        last = LastRun(run.number, run.id, run.who, time.time(), run.hpcforge, run.commit)
        reached = [name for name in found.survey.observed if name not in done.result.lost]
        return next_roster(found.survey.roster, self.site.cluster, last, reached, left)

    def _record(self, done: Applied, roster: Roster | None, left: Sequence[str], strangers: Collection[str]) -> None:
        """A line in the history, and the roster, on the head and on this host."""
        one = past(
            self.run,
            done.result,
            args=sys.argv[2:],
            dirty=bool(self.commit and self.commit.dirty),
            started_s=self.started_s,
            exit_code=int(self.code(done)),
            left=left,
            verdicts=[one.verdict for one in done.tests.reached],
        )
        for problem in write_log(self.engine, self.head, one, roster, self.site.cluster.name, strangers):
            self.progress.say(problem)


def _has_left(name: str, done: Applied) -> bool:
    outcomes = done.result.outcomes.get(name, {}).values()
    return name in done.result.abandoned or (bool(outcomes) and all(one.status == "done" for one in outcomes))


def _confirm(progress: Progress, nodes: int) -> None:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", "look at `hpcforge plan`, then apply with --yes")
    with progress.paused(), progress.phase("your answer"):
        typer.confirm(f"Change {nodes} nodes?", abort=True, err=True)
