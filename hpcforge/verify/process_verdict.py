"""Blame for a test with a report from each process: the launchers without ranks. Pure.

Where each process is, is known from what starts it, not from what it says. Witnesses are heard in this order:

1. a process that says its result is wrong, or that it failed; an assertion that does not hold;
2. Slurm, that it ended the job, that a node failed, or that a process used too much memory;
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

_TEXTS = 8  # of a node that a verdict keeps
_FEW = 3  # nodes with the same untrue value are no chance
_NAMED = ("address of ", "number of account ", "name server ", "names of other nodes")  # parts of node_health
_NAMES = "name service"


def judge_tasks(job: Launch, ran: Completed, end: JobEndReason | None = None) -> Verdict:
    """Return the verdict on the one test of a launch; `end`: why Slurm ended the job, if it did."""
    (turn,) = job.turns
    names = _names(job)
    seen = read(ran, turn.test, job.layout)
    of = numbers(turn.program, seen.measurements)
    verdict = Verdict(
        test=turn.test,
        status="passed",
        nodes=names,
        launcher=job.launcher,
        ranks=job.ranks,
        measurements=seen.measurements,
        assertions=seen.assertions,
        reasons=_reasons((*seen.wrong, *seen.failed)),
        headline=headline(turn.program, of),
        torch_build=text_of(seen, "torch"),
        backend=text_of(seen, "backend"),
        device=text_of(seen, "device"),
    )
    blame = _blame(job, seen, ran, end)
    if job.step is not None:
        return blamed(job, verdict, required(job.step, seen, ran, end, blame))
    if blame is None and (short := unreported(turn.program, of, names if job.kind.per_node == "one" else ())):
        blame = Blame("unknown", short.text, None, short.node)
    if blame is None and (short := missed(turn.program, of)):
        blame = Blame("missed", short.text, None, short.node)
    blame = blame or without_gpus(job, seen)
    hardware = {node.name: node.hardware for node in job.nodes}
    if blame is None and (short := uneven(turn.program, seen.measurements, hardware)):
        blame = Blame("missed", short.text, None, short.node)
    return blamed(job, verdict, blame)


def _reasons(ends: Sequence[RankEnd]) -> dict[str, str]:
    """Return what each node reports of itself, its first few words."""
    by_node: dict[str, list[str]] = {}
    for end in ends:
        by_node.setdefault(end.host, []).append(end.text)
    return {node: "; ".join(texts[:_TEXTS]) for node, texts in by_node.items()}


def _blame(job: Launch, seen: Transcript, ran: Completed, end: JobEndReason | None) -> Blame | None:
    witnesses: tuple[Callable[[], Blame | None], ...] = (
        lambda: head_lost(seen, ran) or altered(seen),
        lambda: _said(job, seen.wrong, "wrong"),
        lambda: _said(job, seen.failed, "failed"),
        lambda: untrue(seen),
        lambda: by_slurm(seen, end),
        lambda: _ended(seen, [host for host in seen.task_ends if host in seen.task_exits]),
        lambda: _past_its_limit(job, seen, ran),
        lambda: _ended(seen, list(seen.task_ends)),
        lambda: _never_began(job, seen, ran),
        lambda: None if ran.rc == 0 else Blame("failed", last_words(seen, ran)),
    )
    return next((blame for witness in witnesses if (blame := witness())), None)


def _said(job: Launch, said: Sequence[RankEnd], status: str) -> Blame | None:
    """Return the report of the first process, its number where a node has several, and the nodes of others."""
    common = _common_causes(job, said)
    said = [each for each in said if each.text not in common]
    first = next(iter(said), None)
    if first is None:
        return Blame("wrong", "; ".join(common.values()), next_command="hpcforge plan BLUEPRINT") if common else None
    rank = first.rank if job.kind.per_node != "one" else None
    text = first.text or "said that it failed, and not why"
    if more := [each for each in said if each is not first]:
        hosts = fold(dict.fromkeys(each.host for each in more))
        text += f"; and {len(more)} more on {hosts}"
    text = "; ".join((text, *common.values()))
    return Blame("wrong" if status == "wrong" else "failed", text, rank, first.host)


def _common_causes(job: Launch, said: Sequence[RankEnd]) -> dict[str, str]:
    """Return the untrue values that most nodes report alike, each with its nodes: no node is the cause of them."""
    hosts: dict[str, dict[str, None]] = {}
    for each in said if job.kind.per_node == "one" else ():
        hosts.setdefault(each.text, {})[each.host] = None
    return {
        text: f"{text} on {fold(alike)}: a common cause ({_NAMES if text.startswith(_NAMED) else 'the blueprint'}, "
        "files on the head)"
        for text, alike in hosts.items()
        if len(alike) >= _FEW and 2 * len(alike) > len(job.nodes) and ": expected " in text
    }


def _ended(seen: Transcript, hosts: list[str]) -> Blame | None:
    """Return the blame for a process that did not end well, with its last output."""
    if not hosts:
        return None
    host, more = hosts[0], len(hosts) - 1
    words = last_line(line for task, at in seen.hosts.items() if at == host for line in seen.stderr.get(task, ()))
    detail = "; ".join(part for part in (words, seen.task_ends[host]) if part)
    return Blame("failed", detail + (f"; and so on {more} more nodes" if more else ""), None, host)


def _past_its_limit(job: Launch, seen: Transcript, ran: Completed) -> Blame | None:
    if ran.rc not in (TIMED_OUT, None):
        return None
    late = [task for task in range(job.ranks) if task not in seen.done]
    hosts = {seen.hosts[task] for task in late if task in seen.hosts} | ({*_names(job)} - {*seen.hosts.values()})
    where = f" on {fold(name for name in _names(job) if name in hosts)}" if 1 < len(hosts) < len(job.nodes) else ""
    rank = late[0] if len(late) == 1 and job.kind.per_node != "one" else None
    detail = f"not done after {job.time_limit_s} s{where}"
    return Blame("timed_out", detail, rank, hosts.pop() if len(hosts) == 1 else None)


def _never_began(job: Launch, seen: Transcript, ran: Completed) -> Blame | None:
    """Nodes without processes; of several none can be told to be the cause."""
    began = {*seen.hosts.values()}
    without = [name for name in _names(job) if name not in began]
    status: Status = "unknown" if ran.rc == 0 else "failed"
    if len(without) > 1:
        return Blame(status, f"no process began on {fold(without)}: {last_words(seen, ran)}")
    return Blame(status, "no process began: nothing was heard from it", None, without[0]) if without else None


def _names(job: Launch) -> tuple[str, ...]:
    return tuple(node.name for node in job.nodes)
