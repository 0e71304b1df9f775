"""Blame for a test with a report from each process: the launchers without ranks. Pure.

The place of each process comes from its launcher, not from its report. Evidence counts in this order:

1. a process that reports a wrong result, or its failure; an assertion that does not hold;
2. Slurm: it ended the job, a node failed, or a process used too much memory;
3. a process that ended with an exit code;
4. at the time limit, those that have not reported yet;
5. a process that a signal ended;
6. a node on which none began;
7. a measure that is missing, of every node where each has one process, else of all processes together: `unknown`.

Then the numbers are compared with the lines that the test draws; of a test with several launches, after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpcforge.blueprint.hostlist import fold
from hpcforge.verify.attribution import (
    TIMED_OUT,
    Blame,
    altered,
    blamed,
    by_slurm,
    head_lost,
    last_line,
    last_words,
    required,
    text_of,
    untrue,
    without_gpus,
)
from hpcforge.verify.head import Completed
from hpcforge.verify.job_end_reason import JobEndReason
from hpcforge.verify.measurements import headline, missed, numbers, uneven, unreported
from hpcforge.verify.step_output import RankEnd, Transcript, read
from hpcforge.verify.submit import Launch
from hpcforge.verify.verdicts import Status, Verdict

_TEXTS = 8  # of a node in a verdict
_FEW = 3  # nodes with the same untrue value are not a coincidence
_NAME_LOOKUPS = ("address of ", "number of account ", "name server ", "names of other nodes")  # parts of node_health
_NAMES = "name service"


def judge_tasks(job: Launch, ran: Completed, end: JobEndReason | None = None) -> Verdict:
    """Return the verdict on the one test of a launch; `end`: why Slurm ended the job, if it did."""
    (turn,) = job.turns
    names = _names(job)
    transcript = read(ran, turn.test, job.layout)
    by_measure = numbers(turn.program, transcript.measurements)
    verdict = Verdict(
        test=turn.test,
        status="passed",
        nodes=names,
        launcher=job.launcher,
        ranks=job.ranks,
        measurements=transcript.measurements,
        assertions=transcript.assertions,
        reasons=_reasons((*transcript.wrong, *transcript.failed)),
        headline=headline(turn.program, by_measure),
        torch_build=text_of(transcript, "torch"),
        backend=text_of(transcript, "backend"),
        device=text_of(transcript, "device"),
    )
    blame = _blame(job, transcript, ran, end)
    if job.step is not None:
        return blamed(job, verdict, required(job.step, transcript, ran, end, blame))
    if blame is None and (short := unreported(turn.program, by_measure, names if job.kind.per_node == "one" else ())):
        blame = Blame("unknown", short.text, None, short.node)
    if blame is None and (short := missed(turn.program, by_measure)):
        blame = Blame("missed", short.text, None, short.node)
    blame = blame or without_gpus(job, transcript)
    hardware = {node.name: node.hardware for node in job.nodes}
    if blame is None and (short := uneven(turn.program, transcript.measurements, hardware)):
        blame = Blame("missed", short.text, None, short.node)
    return blamed(job, verdict, blame)


def _reasons(ends: Sequence[RankEnd]) -> dict[str, str]:
    """Return the report of each node on itself, its first few texts."""
    by_node: dict[str, list[str]] = {}
    for end in ends:
        by_node.setdefault(end.host, []).append(end.text)
    return {node: "; ".join(texts[:_TEXTS]) for node, texts in by_node.items()}


def _blame(job: Launch, transcript: Transcript, ran: Completed, end: JobEndReason | None) -> Blame | None:
    witnesses: tuple[Callable[[], Blame | None], ...] = (
        lambda: head_lost(transcript, ran) or altered(transcript),
        lambda: _blame_reports(job, transcript.wrong, "wrong"),
        lambda: _blame_reports(job, transcript.failed, "failed"),
        lambda: untrue(transcript),
        lambda: by_slurm(transcript, end),
        lambda: _ended(transcript, [host for host in transcript.task_ends if host in transcript.task_exits]),
        lambda: _past_its_limit(job, transcript, ran),
        lambda: _ended(transcript, list(transcript.task_ends)),
        lambda: _never_began(job, transcript, ran),
        lambda: None if ran.rc == 0 else Blame("failed", last_words(transcript, ran)),
    )
    return next((blame for witness in witnesses if (blame := witness())), None)


def _blame_reports(job: Launch, reports: Sequence[RankEnd], status: str) -> Blame | None:
    """Return the report of the first process, its number where a node has several, and the nodes of others."""
    common = _common_causes(job, reports)
    reports = [report for report in reports if report.text not in common]
    first = next(iter(reports), None)
    if first is None:
        return Blame("wrong", "; ".join(common.values()), next_command="hpcforge plan BLUEPRINT") if common else None
    rank = first.rank if job.kind.per_node != "one" else None
    text = first.text or "reported a failure without a reason"
    if more := [report for report in reports if report is not first]:
        hosts = fold(dict.fromkeys(report.host for report in more))
        text += f"; and {len(more)} more on {hosts}"
    text = "; ".join((text, *common.values()))
    return Blame("wrong" if status == "wrong" else "failed", text, rank, first.host)


def _common_causes(job: Launch, reports: Sequence[RankEnd]) -> dict[str, str]:
    """Return the untrue values that most nodes share, each with its nodes: no single node is the cause."""
    hosts: dict[str, dict[str, None]] = {}
    for report in reports if job.kind.per_node == "one" else ():
        hosts.setdefault(report.text, {})[report.host] = None
    return {
        text: f"{text} on {fold(nodes)}: a common cause "
        f"({_NAMES if text.startswith(_NAME_LOOKUPS) else 'the blueprint'}, files on the head)"
        for text, nodes in hosts.items()
        if len(nodes) >= _FEW and 2 * len(nodes) > len(job.nodes) and ": expected " in text
    }


def _ended(transcript: Transcript, hosts: list[str]) -> Blame | None:
    """Return the blame for a process that did not end well, with its last output."""
    if not hosts:
        return None
    host, more = hosts[0], len(hosts) - 1
    words = last_line(
        line for task, at in transcript.hosts.items() if at == host for line in transcript.stderr.get(task, ())
    )
    detail = "; ".join(part for part in (words, transcript.task_ends[host]) if part)
    return Blame("failed", detail + (f"; the same on {more} more nodes" if more else ""), None, host)


def _past_its_limit(job: Launch, transcript: Transcript, ran: Completed) -> Blame | None:
    if ran.rc not in (TIMED_OUT, None):
        return None
    late = [task for task in range(job.ranks) if task not in transcript.done]
    hosts = {transcript.hosts[task] for task in late if task in transcript.hosts} | (
        {*_names(job)} - {*transcript.hosts.values()}
    )
    place = f" on {fold(name for name in _names(job) if name in hosts)}" if 1 < len(hosts) < len(job.nodes) else ""
    rank = late[0] if len(late) == 1 and job.kind.per_node != "one" else None
    detail = f"not done after {job.time_limit_s} s{place}"
    return Blame("timed_out", detail, rank, hosts.pop() if len(hosts) == 1 else None)


def _never_began(job: Launch, transcript: Transcript, ran: Completed) -> Blame | None:
    """Return the blame for nodes without processes; of several nodes, none is blamed."""
    began = {*transcript.hosts.values()}
    without = [name for name in _names(job) if name not in began]
    status: Status = "unknown" if ran.rc == 0 else "failed"
    if len(without) > 1:
        return Blame(status, f"no process began on {fold(without)}: {last_words(transcript, ran)}")
    return Blame(status, "no process began: no output", None, without[0]) if without else None


def _names(job: Launch) -> tuple[str, ...]:
    return tuple(node.name for node in job.nodes)
