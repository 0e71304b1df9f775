"""The node that a verdict blames, and the text if it is unknown."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hpcforge.cluster.launches import ProgramLaunch
from hpcforge.verify.head import Completed
from hpcforge.verify.job_end_reason import JobEndReason
from hpcforge.verify.step_output import Transcript, clean
from hpcforge.verify.submit import SMOKE_TESTS, Launch
from hpcforge.verify.verdicts import Status, Verdict, assertion_row

TIMED_OUT = 124  # of timeout(1)


@dataclass(frozen=True)
class Blame:
    """The fault, and its rank and node if they are known."""

    status: Status
    detail: str
    rank: int | None = None
    node: str | None = None
    next_command: str = ""  # "": chosen by the node


def blamed(job: Launch, verdict: Verdict, blame: Blame | None) -> Verdict:
    """Return the verdict with the blame, if there is one, and the next command. Only nodes of the job are blamed."""
    if blame is None:
        return verdict
    if blame.node not in {None, *(node.name for node in job.nodes)}:
        blame = replace(blame, node=None)
    return replace(
        verdict,
        status=blame.status,
        detail=blame.detail,
        rank=blame.rank,
        node=blame.node,
        next_command=next_command(job, blame),
    )


def next_command(job: Launch, blame: Blame) -> str:
    """Return a command for the head that shows more about the cause."""
    if blame.next_command:
        return blame.next_command
    if blame.node is None and blame.status == "timed_out" and job.pairs_test and job.kind.per_node != "one":
        return f"hpcforge verify BLUEPRINT --test {job.pairs_test}"
    if blame.node is None:
        return f"sinfo --Node --long --nodes={job.nodelist}"
    return f"scontrol show node {blame.node}"


def head_lost(transcript: Transcript, ran: Completed) -> Blame | None:
    """Return the blame for a lost head, which leaves no output."""
    if ran.rc is not None or transcript.hosts:
        return None
    return Blame("unknown", f"lost contact with the head: {clean(ran.stderr) or 'no answer'}")


def altered(transcript: Transcript) -> Blame | None:
    """Return the blame for a node that has another program than this launch, and did not run it."""
    host, file = next(iter(transcript.changed.items()), (None, ""))
    if host is None:
        return None
    more = f"; the same on {len(transcript.changed) - 1} more nodes" if transcript.changed.keys() - {host} else ""
    detail = f"{SMOKE_TESTS}/{file} is not the program of this launch, and was not run{more}"
    return Blame("failed", detail, None, host, f"hpcforge plan BLUEPRINT --limit {host}")


def without_gpus(job: Launch, transcript: Transcript) -> Blame | None:
    """Return the blame for ranks that computed on CPUs: the GPUs that the blueprint declares were not tested."""
    if not job.real_gpus or text_of(transcript, "device") != "cpu":
        return None
    framework = job.turns[0].program.framework or "PyTorch"
    text = f"ran on CPUs: no GPU was used, though each node has {job.real_gpus}"
    return Blame("unknown", f"{text}; check that its {framework} is a build for GPUs")


def by_slurm(transcript: Transcript, end: JobEndReason | None) -> Blame | None:
    """Return the blame by Slurm: its reason for ending the job, a failed node, or a task above the job's memory."""
    node = next(iter(transcript.failed_nodes), None)
    if end is not None and (end.nodes or node is None):
        return Blame(end.status, end.detail, None, end.node, end.next_command)
    if node is not None:
        line = next(line for line in transcript.slurm_errors if node in line)
        return Blame("failed", f"{line}; {end.cause}" if end else line, None, node)
    full = next(iter(transcript.over_memory.items()), None)
    if full is None:
        return None
    return Blame("failed", f"used more memory than the job has there (Slurm: {full[1]})", None, full[0])


def untrue(transcript: Transcript) -> Blame | None:
    """Return the assertion that does not hold: of all processes together, or of one that did not report it itself."""
    first = next((assertion for assertion in transcript.assertions if not assertion.holds), None)
    return Blame("wrong", assertion_row(first)) if first else None


def required(
    launch: ProgramLaunch, transcript: Transcript, ran: Completed, end: JobEndReason | None, blame: Blame | None
) -> Blame | None:
    """Return the blame in one of several launches, by its required end; `blame` is by its actual end."""
    if launch.ends == "done":
        return blame
    if ran.rc == 0:
        return Blame("failed", "ended on its own; SIGKILL must end it")
    own = (
        ran.rc in (TIMED_OUT, None)
        or transcript.wrong
        or any(failure.own for failure in transcript.failed)
        or by_slurm(transcript, end)
    )
    return blame if own or not _killed(transcript) else None


def _killed(transcript: Transcript) -> bool:
    """Whether SIGKILL ended a process, by torchrun or Slurm; a shell reports it as 137."""
    return any(end.code == -signal.SIGKILL for end in transcript.exits.values()) or any(
        end in ("Killed", f"Exited with exit code {128 + signal.SIGKILL}") for end in transcript.task_ends.values()
    )


def last_line(lines: Iterable[str]) -> str:
    """Return the last line with words in it."""
    return clean(next((line for line in reversed(tuple(lines)) if line.strip(" =-")), ""))


def last_words(transcript: Transcript, ran: Completed) -> str:
    """Return how a step without a named node ended."""
    if transcript.slurm_errors:
        return f"srun ended with exit code {ran.rc}: {transcript.slurm_errors[0]}"
    return f"srun ended with exit code {ran.rc}: {last_line(ran.stderr.splitlines()) or 'without output'}"


def text_of(transcript: Transcript, key: str) -> str | None:
    """Return a text of the result, on one line."""
    value = transcript.result.get(key) if transcript.result else None
    return clean(value, 60) if isinstance(value, str) else None
