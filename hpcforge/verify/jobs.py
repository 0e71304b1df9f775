"""Slurm jobs on the head: submit, keep, wait for their start, cancel; and nodes that take none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from hpcforge.blueprint.hostlist import fold
from hpcforge.errors import ExpectedError
from hpcforge.slurm.commands import cancel_jobs, comment_job, list_nodes
from hpcforge.slurm.job_end import never_starts
from hpcforge.slurm.jobs import Column, read, squeue
from hpcforge.slurm.nodes import parse_sinfo, reserved, responding, usable
from hpcforge.verify.head import Completed, Head
from hpcforge.verify.heartbeat import BEAT_S, POLL_S, SILENT_S, stamped
from hpcforge.verify.step_output import clean
from hpcforge.verify.submit import JOB_NAME, SCRIPT, Launch, sbatch

EACH_S = 30.0  # between two messages about the same wait
QUERY_S = 30.0  # slurmctld answers at once unless it is in trouble
_STATE: tuple[Column, ...] = ("id", "state", "reason")
_HOLDER: tuple[Column, ...] = ("id", "user", "name", "nodes")
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "RESIZING"})


class RefusedError(ExpectedError):
    """Slurm refused a job, with Slurm's reason."""


@dataclass(frozen=True)
class JobState:
    """A job's state and Slurm's reason for it, as squeue spells them."""

    state: str
    reason: str

    @property
    def waiting(self) -> bool:
        """True while the job may still start."""
        return self.state in WAITING and not self.in_prolog

    @property
    def in_prolog(self) -> bool:
        """True until the prolog of the job has ended on its nodes; no step starts before."""
        return self.reason == "Prolog" and self.state in (*WAITING, "RUNNING")

    @property
    def never_starts(self) -> bool:
        """True for a job that waits forever, as no other job keeps it from starting."""
        return self.waiting and never_starts(self.reason)


GONE = JobState("GONE", "squeue no longer lists the job")


class StoppedError(Exception):
    """The user stops the run."""


@dataclass
class HeldAllocation:
    """A job that holds a test's nodes while its owner sends heartbeats."""

    head: Head
    number: str
    due_s: float  # of the next heartbeat, by `time.monotonic`
    progress: Callable[[str], None]

    def stay(self) -> None:
        """Send a heartbeat when due; called several times a second. Raises StoppedError."""
        if self.head.stop():
            raise StoppedError
        if time.monotonic() >= self.due_s:
            self.due_s = time.monotonic() + BEAT_S
            beat = stamped(*comment_job(self.number, self.head.owner.comment()))
            self.head.tell(beat, timeout_s=QUERY_S)

    def waiting(self, subject: str, limit_s: float, clock: Callable[[], float] = time.monotonic) -> Callable[[], None]:
        """Return `stay` that also prints, every 30 s, the subject and the limit of the wait."""
        began_s = clock()
        next_s = EACH_S

        def stay() -> None:
            nonlocal next_s
            self.stay()
            waited_s = clock() - began_s
            if waited_s >= next_s:
                next_s = waited_s + EACH_S
                self.progress(f"waiting for {subject}: {waited_s:.0f} s of at most {limit_s:.0f} s")

        return stay


@contextmanager
def allocation(head: Head, job: Launch, progress: Callable[[str], None]) -> Iterator[HeldAllocation]:
    """Hold the test's nodes with a job, which is cancelled in every case. Raise RefusedError.

    If the head is lost before the job's number arrives, the job ends by itself: its owner sends no sign of life.
    """
    due_s = time.monotonic() + BEAT_S
    job_id = _submitted(head.run(stamped(*sbatch(job, head.owner)), stdin=SCRIPT, user=job.user, timeout_s=QUERY_S))
    try:
        yield HeldAllocation(head, job_id, due_s, progress)
    except StoppedError:
        progress(f"stopped: cancelling job {job_id}")
        raise
    finally:
        try:
            head.run(cancel_jobs(job_id), user=job.user, timeout_s=QUERY_S, aside=True)
        except KeyboardInterrupt:
            within_s = SILENT_S + 2 * POLL_S
            progress(f"job {job_id} may still be there: it ends within {within_s} s, or on the head: scancel {job_id}")
            raise


def _submitted(answer: Completed) -> str:
    job_id = answer.stdout.strip().split(";")[0]  # a cluster's name may follow
    if answer.rc != 0 or not job_id.isdigit():
        raise RefusedError(clean(answer.stderr or answer.stdout) or "sbatch gave no answer")
    return job_id


def states(head: Head, job_ids: Iterable[str]) -> dict[str, JobState]:
    """Return the states of several jobs, by one query. Those unknown to squeue are GONE."""
    ids = list(job_ids)
    answer = head.run(squeue(_STATE, "all", f"--jobs={','.join(ids)}"), timeout_s=QUERY_S)
    if answer.rc != 0 and "Invalid job id" not in answer.stderr:
        unknown = JobState("PENDING", f"squeue does not answer: {clean(answer.stderr)}")
        return dict.fromkeys(ids, unknown)
    by_id = {job.id: JobState(clean(job.state, 30), clean(job.reason)) for job in read(answer.stdout, _STATE)}
    return {job_id: by_id.get(job_id, GONE) for job_id in ids}


def wait_for_start(
    head: Head,
    job_ids: Iterable[str],
    *,
    limit_s: float,
    progress: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, JobState]:
    """Wait until one of the jobs starts or ends, at most `limit_s` seconds; return the states of all of them.

    A job in its prolog has started: `wait_for_prolog` follows. A job that can never start also ends the wait.
    """
    ids = list(job_ids)
    deadline, pause, reported = clock() + limit_s, 0.25, ""
    while True:
        current = states(head, ids)
        if any(not state.waiting or state.never_starts for state in current.values()) or clock() >= deadline:
            return current
        reasons = ", ".join(sorted({state.reason for state in current.values()} - {"None"}))
        if reasons and reasons != reported:
            progress(f"waiting: {reasons}; at most {limit_s:.0f} s")
            reported = reasons
        sleep(max(0.0, min(pause, deadline - clock())))
        pause = min(5.0, pause * 1.5)


def wait_for_prolog(
    head: Head,
    job_id: str,
    *,
    limit_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> JobState:
    """Wait until a job's prolog has ended, at most `limit_s` seconds; return its state.

    An earlier srun is refused its step, and tries again after twice the time, up to a minute later.
    """
    deadline, pause = clock() + limit_s, 0.1
    while True:
        state = states(head, [job_id])[job_id]
        if not (state.in_prolog or state.waiting) or clock() >= deadline:
            return state
        sleep(pause)
        pause = min(1.0, pause * 1.5)


def unusable(head: Head, names: Iterable[str], *, unreserved: bool = False) -> dict[str, str]:
    """Return the nodes to which Slurm gives no jobs, with their state and the reason; empty if Slurm does not answer.

    `unreserved`: for jobs without a reservation, so reserved nodes count, too.
    """
    node_names = list(names)
    if not node_names:
        return {}
    answer = head.run(list_nodes(node_names), timeout_s=QUERY_S)
    reasons = {}
    for node, (state, reason) in parse_sinfo(answer.stdout).items():
        if node in node_names and (not usable(state) or (unreserved and reserved(state))):
            condition = state if responding(state) else "not responding"
            reasons[node] = clean(f"{condition}: {reason}" if reason else condition)
    return reasons


def occupants(head: Head, names: Iterable[str], without: str) -> dict[str, str]:
    """Return jobs on some of these nodes, by number: "ada's train on w[1-2]". The job `without` does not count."""
    command = squeue(_HOLDER, "RUNNING,COMPLETING", f"--nodelist={fold(names)}")
    jobs = read(head.run(command, timeout_s=QUERY_S).stdout, _HOLDER)
    return {job.id: clean(f"{job.user}'s {job.name} on {job.nodes}") for job in jobs if job.id != without}


def describe(causes: Mapping[str, str], limit: int = 3) -> str:
    """Join the first few of some named causes on one line."""
    shown = [f"{name} {reason}" for name, reason in list(causes.items())[:limit]]
    return "; ".join(shown) + (f"; and {len(causes) - limit} more" if len(causes) > limit else "")


# The nodes of users' jobs, on which no test can start.


_BUSY: tuple[Column, ...] = ("number", "user", "name", "nodes")


def busy(head: Head, names: Iterable[str], run_as: str) -> dict[str, str]:
    """Return the nodes on which users' jobs run, each with one of them: "job 20, ada's train".

    Return all nodes if Slurm does not list its jobs. `run_as` is the account of test jobs, which are not a user's;
    other users may use their names.

    Tests take whole nodes, so one job of any size is enough. A completing job does not count: tests wait for it.
    """
    node_names = set(names)
    answer = head.run(squeue(_BUSY, "RUNNING,SUSPENDED,CONFIGURING"), timeout_s=QUERY_S)
    if answer.rc != 0:
        reason = clean(answer.stderr or answer.stdout) or "no answer"
        return dict.fromkeys(sorted(node_names), f"a job that squeue may not list: {reason}")
    jobs: dict[str, str] = {}
    for job in read(answer.stdout, _BUSY):
        if not (job.user == run_as and job.name.startswith(JOB_NAME)):
            for node in job.holds:
                if node in node_names:
                    jobs.setdefault(node, clean(f"job {job.number}, {job.user}'s {job.name}"))
    return jobs
