"""Run a cluster's acceptance tests through Slurm, torchrun's of the same nodes in one launch, and judge them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.launches import RankNeeds
from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.slurm.job_end import is_unplaceable
from hpcforge.verify import jobs
from hpcforge.verify.head import Head
from hpcforge.verify.isolate import Plans, names_of, run_isolation
from hpcforge.verify.job_end_reason import JobEndReason, end_of
from hpcforge.verify.launches import run_launches, run_step
from hpcforge.verify.step_verdict import judge, unheard
from hpcforge.verify.submit import JOB_NAME, Launch, NotLaunchableError, launch
from hpcforge.verify.verdicts import Verdict, spread

PENDING_S = 60.0  # the longest wait for a job's start
PENDING_AGAIN_S = 5.0  # the same after a launch that stayed pending: most likely for the same reason

Progress = Callable[[str, str], None]  # the test or tests of a launch, and its present action


@dataclass(frozen=True)
class LaunchOptions:
    """Options of the launches of tests."""

    part: bool = False  # their nodes are some of a node set, which as a whole has passed before
    pending_s: float = PENDING_S
    extra_args: Mapping[str, Sequence[str]] = field(default_factory=dict)  # further arguments of programs, by test
    plans: Plans = tuple  # the fabrics of the nodes, for a test that isolates bad parts
    reservation: str = ""  # in Slurm, for the jobs


def verify(
    cluster: Cluster,
    head: Head,
    nodes_left_out: Mapping[str, str],
    progress: Progress,
    *,
    tests: Sequence[SmokeTest] | None = None,
    options: LaunchOptions = LaunchOptions(),
    counted: Callable[[Sequence[SmokeTest]], AbstractContextManager[object]] = nullcontext,
) -> tuple[Verdict, ...]:
    """Run `tests`, or all of the blueprint, on their nodes without those left out (by name: the reason).

    A launch that Slurm ends because of a node, before any rank reported, runs again without that node if the rest is
    enough for its first test. `counted` is open during a launch.

    Return a verdict on each, in their order; none if the blueprint has no tests. All submitted jobs are cancelled in
    any case.

    Raises:
        StoppedError: the head's run must end.
    """
    if tests is None:
        tests = cluster.acceptance.tests if cluster.acceptance else ()
    verdicts: dict[SmokeTest, Verdict] = {}
    left_out = dict(nodes_left_out)
    for launched in dict.fromkeys(map(launched_as, tests)):
        waiting = [test for test in dict.fromkeys(tests) if launched_as(test) == launched]
        with counted(waiting):
            while waiting:  # a launch ends with the first test that is not right: those after it are launched again
                pending = any(verdict.status == "pending" for verdict in verdicts.values())
                patience_s = PENDING_AGAIN_S if pending else options.pending_s
                reached, out = _run(cluster, head, waiting, left_out, progress, replace(options, pending_s=patience_s))
                left_out |= out
                if out and _enough(cluster, waiting, left_out):
                    progress(", ".join(verdict.test for verdict in reached), _describe_repeat(reached[0], out))
                    continue
                reached = reached[:1] if out else reached
                verdicts |= zip(waiting, reached, strict=False)
                for verdict in reached:
                    progress(verdict.test, _describe_result(verdict))
                waiting = waiting[len(reached) :]
    return tuple(verdicts[test] for test in tests)


def _describe_result(verdict: Verdict) -> str:
    """Return the result of a test for people, before its numbers are compared with lines."""
    if verdict.passed:
        return f"ended after {verdict.seconds:g} s" + (f": {verdict.headline}" if verdict.headline else "")
    place = f"{verdict.node}: " if verdict.node and not verdict.detail.startswith(verdict.node) else ""
    return f"{verdict.status.replace('_', ' ')}: {place}{verdict.detail}"


def new_nonce() -> str:
    """Return a new random word for a launch."""
    return secrets.token_hex(8)


def launched_as(test: SmokeTest) -> tuple[tuple[str, ...], RankNeeds, str, str, str]:
    """Return the common key of tests in one launch: nodes, ranks, launcher, container."""
    turns = test.program.ranked and not test.program.launches
    launched = test.program.launcher, test.program.container or ""
    return test.nodes, test.program.ranks, *launched, "" if turns else test.name


def _enough(cluster: Cluster, tests: Sequence[SmokeTest], left_out: Mapping[str, str]) -> bool:
    """Whether the first of these tests can run on the remaining nodes."""
    names = [name for name in tests[0].nodes if name not in left_out]
    try:
        return bool(names) and bool(launch(cluster, tests, names).turns)
    except NotLaunchableError:
        return False


def _describe_repeat(verdict: Verdict, out: Mapping[str, str]) -> str:
    place = "" if verdict.node is None else f"{verdict.node}: "
    return f"{place}{verdict.detail}; run again without {fold(out)}"


def _run(
    cluster: Cluster,
    head: Head,
    tests: Sequence[SmokeTest],
    nodes_left_out: Mapping[str, str],
    progress: Progress,
    options: LaunchOptions,
) -> tuple[list[Verdict], Mapping[str, str]]:
    """Run one launch of tests with the same nodes; return verdicts on those that it reached, at least one.

    Also return the nodes that made Slurm end it before it began, with reasons.
    """
    out: Mapping[str, str] = {}
    began, began_s = time.monotonic(), round(time.time(), 1)
    left_out = {name: nodes_left_out[name] for name in tests[0].nodes if name in nodes_left_out}
    names = [name for name in tests[0].nodes if name not in left_out]
    try:
        if not names:
            raise NotLaunchableError("none of its nodes is usable")
        job = launch(cluster, tests, names, options.extra_args, part=options.part)
        job = replace(job, reservation=options.reservation, nonce=new_nonce())
        tests = tests[: len(job.turns)]
        activity = partial(progress, ", ".join(test.name for test in tests))
        verdicts, out = _submit(cluster, head, job, activity, options.pending_s, options.plans)
    except NotLaunchableError as error:
        verdicts = [Verdict(test.name, "not_run", tuple(names), detail=str(error)) for test in tests]
    except jobs.RefusedError as error:
        detail, command = f"Slurm refused the job: {error}", _placing(names) if is_unplaceable(str(error)) else ""
        verdicts = [Verdict(test.name, "not_run", tuple(names), detail=detail, next_command=command) for test in tests]
    timed = zip(_timed(verdicts, time.monotonic() - began), tests, strict=False)
    return [
        replace(verdict, left_out=left_out, options=dict(test.options), began_s=began_s) for verdict, test in timed
    ], out


def _timed(verdicts: Sequence[Verdict], seconds: float) -> list[Verdict]:
    """Divide the seconds of a launch: time outside of all tests belongs to the failed one, else to the first."""
    rest = max(0.0, seconds - sum(verdict.seconds for verdict in verdicts))
    owner = verdicts[0] if verdicts[-1].passed else verdicts[-1]
    return [
        replace(verdict, seconds=round(verdict.seconds + (rest if verdict is owner else 0.0), 1))
        for verdict in verdicts
    ]


def _submit(
    cluster: Cluster, head: Head, job: Launch, progress: Callable[[str], None], pending_s: float, plans: Plans
) -> tuple[list[Verdict], Mapping[str, str]]:
    progress(f"submitting for {job.nodelist}")
    with jobs.allocation(head, job, progress) as hold:
        verdicts, out = _run_held(cluster, head, job, hold, progress, pending_s, plans)
    return [replace(verdict, jobs=(hold.number,)) for verdict in verdicts], out


def _run_held(
    cluster: Cluster,
    head: Head,
    job: Launch,
    hold: jobs.HeldAllocation,
    progress: Callable[[str], None],
    pending_s: float,
    plans: Plans,
) -> tuple[list[Verdict], Mapping[str, str]]:
    job_id, began = hold.number, time.monotonic()

    def sleep(seconds: float) -> None:
        head.pause(seconds, hold.stay)

    state = jobs.wait_for_start(head, [job_id], limit_s=pending_s, progress=progress, sleep=sleep)[job_id]
    prolog = state.in_prolog
    if prolog:
        stay = hold.waiting(f"the prolog of job {job_id}", job.time_limit_s)
        state = jobs.wait_for_prolog(
            head, job_id, limit_s=job.time_limit_s, sleep=lambda seconds: head.pause(seconds, stay)
        )
    if state.waiting:
        return _pending(head, job, job_id, state, time.monotonic() - began), {}
    if state.state != "RUNNING" and not state.in_prolog:
        end = end_of(head, job, job_id, hold.stay, in_prolog=prolog)
        return _never_began(job, job_id, state, end), end.nodes if end else {}
    if job.turns[0].program.launches:
        verdict, out = run_launches(cluster, head, job, hold, progress)
        return [verdict], out
    if job.turns[0].program.isolates:
        verdict, out = run_isolation(cluster, head, job, hold, progress, names_of(job, plans()))
        return [verdict], out
    progress(spread(job.launcher, job.ranks, job.nodelist))
    ran = run_step(head, job, hold)
    ended_well = ran.rc in (0, None)
    end = None if ended_well else end_of(head, job, job_id, hold.stay)
    return list(judge(job, ran, end)), {} if ended_well else unheard(job, ran, end)


def _never_began(job: Launch, job_id: str, state: jobs.JobState, end: JobEndReason | None) -> list[Verdict]:
    """Return the verdicts on a job that Slurm ended before the step began."""
    if end is not None:
        return _unstarted(job, end.status, end.detail, end.next_command, end.node)
    detail = f"job {job_id} ended before the test began: {state.state}, {state.reason}"
    return _unstarted(job, "failed", detail, f"scontrol show job {job_id}")


def _pending(head: Head, job: Launch, job_id: str, state: jobs.JobState, waited_s: float) -> list[Verdict]:
    """Return the verdicts on a pending job: Slurm's reason, and the state of its nodes."""
    names = [node.name for node in job.nodes]
    out_of_use = jobs.unusable(head, names, unreserved=not job.reservation)
    others = jobs.occupants(head, names, without=job_id)
    causes = [f"Slurm says {state.reason} after {waited_s:.0f} s"]
    if state.never_starts:
        causes = [f"Slurm says {state.reason}, so the job would never start"]
    if out_of_use:
        causes.append(jobs.describe(out_of_use))
    if others:
        causes.append(jobs.describe({f"job {number},": description for number, description in others.items()}))
    users = [f"job {number}, {description}" for number, description in others.items()]
    if state.reason == "Priority" and not users:
        users = ["jobs that come first"]
    command = f"sinfo --list-reasons --nodes={job.nodelist}" if out_of_use else f"squeue --nodelist={job.nodelist}"
    if state.never_starts:
        command = f"sacctmgr show association user={job.user}; sacctmgr show qos"
    if is_unplaceable(state.reason):
        command = _placing(names)
    node = next(iter(out_of_use)) if len(out_of_use) == 1 else None
    verdicts = _unstarted(job, "not_run" if state.never_starts else "pending", "; ".join(causes), command, node)
    tests = any(description.startswith(f"{job.user}'s {JOB_NAME}") for description in others.values())  # of another run
    return verdicts if out_of_use or tests else [replace(verdict, waits_for=tuple(users)) for verdict in verdicts]


def _placing(names: Sequence[str]) -> str:
    """Return the command that shows why Slurm places no job on some nodes."""
    return f"scontrol show topology; scontrol show node {fold(names)}"


def _unstarted(
    job: Launch,
    status: Literal["pending", "not_run", "failed", "timed_out"],
    detail: str,
    command: str,
    node: str | None = None,
) -> list[Verdict]:
    """Return the same verdict on every test of a launch."""
    nodes = tuple(node.name for node in job.nodes)
    return [
        Verdict(
            turn.test,
            status,
            nodes,
            launcher=job.launcher,
            ranks=job.ranks,
            node=node,
            detail=detail,
            next_command=command,
        )
        for turn in job.turns
    ]
