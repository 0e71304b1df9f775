"""Run a cluster's acceptance tests through Slurm, one after the other, and judge them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.verify import jobs
from hpcforge.verify.head import Head
from hpcforge.verify.judge import judge
from hpcforge.verify.submit import Launch, NotLaunchableError, launch, srun
from hpcforge.verify.verdicts import Verdict

PENDING_S = 60.0  # how long a job may wait before that is the verdict
PENDING_AGAIN_S = 5.0  # the same for tests after one that stayed pending: most likely for the same reason
CUT_OFF_S = 45.0  # after its time limit a step is killed on the head; the connection waits this much longer

Progress = Callable[[str, str], None]  # the test, what it is doing


def verify(
    cluster: Cluster,
    head: Head,
    nodes_left_out: Mapping[str, str],
    progress: Progress,
    *,
    pending_s: float = PENDING_S,
    extra_args: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Verdict, ...]:
    """Run every acceptance test of the blueprint on its nodes, but for those left out (by name: why).

    A verdict each, in the blueprint's order; none if the blueprint asks for no tests. Whatever happens, also if
    interrupted, the jobs it submitted are cancelled. `extra_args` are further arguments of test programs, by test.
    """
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    extra = extra_args or {}
    verdicts: list[Verdict] = []
    for test in tests:
        patience_s = PENDING_AGAIN_S if any(one.status == "pending" for one in verdicts) else pending_s
        tell = partial(progress, test.name)
        verdicts.append(_run(cluster, head, test, nodes_left_out, tell, patience_s, extra.get(test.name, ())))
    return tuple(verdicts)


def _run(
    cluster: Cluster,
    head: Head,
    test: SmokeTest,
    nodes_left_out: Mapping[str, str],
    progress: Callable[[str], None],
    pending_s: float,
    arguments: Sequence[str],
) -> Verdict:
    began = time.monotonic()
    left_out = {name: nodes_left_out[name] for name in test.nodes if name in nodes_left_out}
    names = [name for name in test.nodes if name not in left_out]
    try:
        if not names:
            raise NotLaunchableError("none of its nodes is usable")
        job = launch(cluster, test, names, arguments)
        verdict = _submitted(head, job, progress, pending_s)
    except NotLaunchableError as error:
        verdict = Verdict(test.name, "not_run", tuple(names), detail=str(error))
    except jobs.RefusedError as error:
        verdict = Verdict(test.name, "not_run", tuple(names), detail=f"Slurm refused the job: {error}")
    return replace(verdict, left_out=left_out, seconds=round(time.monotonic() - began, 1))


def _submitted(head: Head, job: Launch, progress: Callable[[str], None], pending_s: float) -> Verdict:
    progress(f"submitting for {job.nodelist}")
    with jobs.allocation(head, job) as job_id:
        state = jobs.wait_for_start(head, [job_id], limit_s=pending_s, progress=progress)[job_id]
        if state.waiting:
            return _pending(head, job, job_id, state, pending_s)
        if state.state != "RUNNING":
            detail = f"job {job_id} ended before the test began: {state.state}, {state.reason}"
            return _unstarted(job, "failed", detail, f"scontrol show job {job_id}")
        progress(f"{job.ranks} ranks on {job.nodelist}")
        ran = head.run(srun(job, job_id), user=job.user, timeout_s=job.time_limit_s + CUT_OFF_S)
    return judge(job, ran)


def _pending(head: Head, job: Launch, job_id: str, state: jobs.JobState, waited_s: float) -> Verdict:
    """Still pending: with Slurm's reason, and what is known of the nodes it waits for."""
    names = [node.name for node in job.nodes]
    out_of_use = jobs.unusable(head, names)
    others = jobs.occupants(head, names, without=job_id)
    causes = [f"Slurm says {state.reason} after {waited_s:.0f} s"]
    if out_of_use:
        causes.append(jobs.describe(out_of_use))
    if others:
        causes.append(jobs.describe({f"job {number},": what for number, what in others.items()}))
    ours = [number for number, what in others.items() if "'s hpcforge-" in what]
    command = f"sinfo --list-reasons --nodes={job.nodelist}" if out_of_use else f"squeue --nodelist={job.nodelist}"
    if ours:  # left by a run that was killed
        command = f"scancel {' '.join(ours)}"
    verdict = _unstarted(job, "pending", "; ".join(causes), command)
    return replace(verdict, node=next(iter(out_of_use))) if len(out_of_use) == 1 else verdict


def _unstarted(job: Launch, status: Literal["pending", "failed"], detail: str, command: str) -> Verdict:
    nodes = tuple(node.name for node in job.nodes)
    return Verdict(job.test, status, nodes, ranks=job.ranks, detail=detail, next_command=command)
