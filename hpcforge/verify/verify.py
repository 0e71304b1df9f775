"""Run a cluster's acceptance tests through Slurm, torchrun's of the same nodes in one launch, and judge them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.verify import jobs
from hpcforge.verify.head import Completed, Head
from hpcforge.verify.judge import judge
from hpcforge.verify.submit import JOB_NAME, PORT_S, Launch, NotLaunchableError, free_port, launch, srun
from hpcforge.verify.transcript import port_of
from hpcforge.verify.verdicts import Verdict, spread

PENDING_S = 60.0  # how long a job may wait before that is the verdict
PENDING_AGAIN_S = 5.0  # the same for launches after one that stayed pending: most likely for the same reason
CUT_OFF_S = 45.0  # after its time limit a step is killed on the head; the connection waits this much longer

Progress = Callable[[str, str], None]  # the test or tests of a launch, what it is doing


def verify(
    cluster: Cluster,
    head: Head,
    nodes_left_out: Mapping[str, str],
    progress: Progress,
    *,
    tests: Sequence[SmokeTest] | None = None,
    part: bool = False,
    pending_s: float = PENDING_S,
    extra_args: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Verdict, ...]:
    """Run tests on their nodes, but for those left out (by name: why): `tests`, or else all of the blueprint.

    `part`: these nodes are some of a node set, which as a whole has passed before.

    A verdict each, in their order; none if the blueprint asks for no tests. Whatever happens the jobs it submitted are
    cancelled. `extra_args` are further arguments of test programs, by test.

    Raises:
        StoppedError: the head's run is to end.
    """
    if tests is None:
        tests = cluster.acceptance.tests if cluster.acceptance else ()
    verdicts: dict[SmokeTest, Verdict] = {}
    for launched in dict.fromkeys(map(_launched_as, tests)):
        waiting = [test for test in dict.fromkeys(tests) if _launched_as(test) == launched]
        while waiting:  # a launch ends with the first test that is not right: those after it are launched anew
            patience_s = PENDING_AGAIN_S if any(one.status == "pending" for one in verdicts.values()) else pending_s
            reached = _run(cluster, head, waiting, nodes_left_out, progress, patience_s, extra_args or {}, part)
            verdicts |= zip(waiting, reached, strict=False)
            waiting = waiting[len(reached) :]
    return tuple(verdicts[test] for test in tests)


def _launched_as(test: SmokeTest) -> tuple[tuple[str, ...], str]:
    """What tests of one launch have alike: their nodes, and that torchrun starts them."""
    return test.nodes, "" if test.program.launcher == "torchrun" else test.name


def _run(
    cluster: Cluster,
    head: Head,
    tests: Sequence[SmokeTest],
    nodes_left_out: Mapping[str, str],
    progress: Progress,
    pending_s: float,
    arguments: Mapping[str, Sequence[str]],
    part: bool,
) -> list[Verdict]:
    """One launch of tests that have the same nodes; verdicts on as many as it reached, at least one."""
    began = time.monotonic()
    left_out = {name: nodes_left_out[name] for name in tests[0].nodes if name in nodes_left_out}
    names = [name for name in tests[0].nodes if name not in left_out]
    try:
        if not names:
            raise NotLaunchableError("none of its nodes is usable")
        job = launch(cluster, tests, names, arguments, part=part)
        tests = tests[: len(job.turns)]
        verdicts = _submitted(head, job, partial(progress, ", ".join(test.name for test in tests)), pending_s)
    except NotLaunchableError as error:
        verdicts = [Verdict(test.name, "not_run", tuple(names), detail=str(error)) for test in tests]
    except jobs.RefusedError as error:
        detail = f"Slurm refused the job: {error}"
        verdicts = [Verdict(test.name, "not_run", tuple(names), detail=detail) for test in tests]
    timed = zip(_timed(verdicts, time.monotonic() - began), tests, strict=False)
    return [replace(one, left_out=left_out, options=dict(test.options)) for one, test in timed]


def _timed(verdicts: Sequence[Verdict], seconds: float) -> list[Verdict]:
    """Share out the seconds of a launch: what no test reports as its own is the failed one's, else the first one's."""
    rest = max(0.0, seconds - sum(one.seconds for one in verdicts))
    owner = verdicts[0] if verdicts[-1].passed else verdicts[-1]
    return [replace(one, seconds=round(one.seconds + (rest if one is owner else 0.0), 1)) for one in verdicts]


def _submitted(head: Head, job: Launch, progress: Callable[[str], None], pending_s: float) -> list[Verdict]:
    progress(f"submitting for {job.nodelist}")
    with jobs.allocation(head, job, progress) as hold:
        job_id = hold.number

        def sleep(seconds: float) -> None:
            head.pause(seconds, hold.stay)

        state = jobs.wait_for_start(head, [job_id], limit_s=pending_s, progress=progress, sleep=sleep)[job_id]
        if state.waiting:
            return _pending(head, job, job_id, state, pending_s)
        if state.state != "RUNNING":
            detail = f"job {job_id} ended before the test began: {state.state}, {state.reason}"
            return _unstarted(job, "failed", detail, f"scontrol show job {job_id}")
        progress(spread(job.launcher, job.ranks, job.nodelist))
        ran = _ran(head, job, hold)
    return list(judge(job, ran))


def _ran(head: Head, job: Launch, hold: jobs.Hold) -> Completed:
    """The step of the tests; or, where its ranks have no port to meet at, that which was to find one."""
    port = 0
    if job.launcher == "torchrun":
        asked = free_port(job, hold.number)
        named = head.run(asked, user=job.user, timeout_s=PORT_S + CUT_OFF_S, meanwhile=hold.stay)
        port = port_of(named.stdout) or 0
        if not port:
            return named
    limit_s = job.time_limit_s + CUT_OFF_S
    return head.run(srun(job, hold.number, port), user=job.user, timeout_s=limit_s, meanwhile=hold.stay)


def _pending(head: Head, job: Launch, job_id: str, state: jobs.JobState, waited_s: float) -> list[Verdict]:
    """Still pending: with Slurm's reason, and what is known of the nodes it waits for."""
    names = [node.name for node in job.nodes]
    out_of_use = jobs.unusable(head, names)
    others = jobs.occupants(head, names, without=job_id)
    causes = [f"Slurm says {state.reason} after {waited_s:.0f} s"]
    if out_of_use:
        causes.append(jobs.describe(out_of_use))
    if others:
        causes.append(jobs.describe({f"job {number},": what for number, what in others.items()}))
    users = [f"job {number}, {what}" for number, what in others.items()]
    if state.reason == "Priority" and not users:
        users = ["jobs that come first"]
    command = f"sinfo --list-reasons --nodes={job.nodelist}" if out_of_use else f"squeue --nodelist={job.nodelist}"
    node = next(iter(out_of_use)) if len(out_of_use) == 1 else None
    verdicts = _unstarted(job, "pending", "; ".join(causes), command, node)
    tests = any(what.startswith(f"{job.user}'s {JOB_NAME}") for what in others.values())  # of another run
    return verdicts if out_of_use or tests else [replace(one, waits_for=tuple(users)) for one in verdicts]


def _unstarted(
    job: Launch, status: Literal["pending", "failed"], detail: str, command: str, node: str | None = None
) -> list[Verdict]:
    """The same verdict on every test of a launch."""
    nodes = tuple(one.name for one in job.nodes)
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
