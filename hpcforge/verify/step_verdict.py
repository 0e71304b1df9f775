"""Blame for a step's output. Pure: the same output always gives the same verdict.

When one rank fails, the others fail too, a moment later and often with more output. So evidence counts in this order:

1. a rank that reports a wrong result, or an assertion that does not hold;
2. a rank that reports its own failure, outside of a collective;
3. Slurm: it ended the job, a node failed, or a task used too much memory;
4. ranks that ended themselves at the test's time limit, if none had waited in vain for another;
5. torchrun: a signal ended a rank, or it ended without a report;
6. a missing report: a rank started and never reported its end, while others waited for it;
7. a node on which no rank started;
8. ranks that all waited, each past its limit: one node's, if only they were elsewhere in the program, else none;
9. a rank that failed in a collective.

A test passes only if everything ended well *and* rank 0 reported results from all ranks, with every measure that the
test declares, *and* the ranks used the transport that it asserts, *and* these hold the lines that it draws. If nothing
failed and a part of this is missing, the verdict is `unknown`.

If tests share a step, ranks end with the first that is not right. So the end of the step belongs to the first test
without a result, or else to the last. Earlier tests are judged by their reports; later ones did not run.
"""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import SmokeTestProgram, TransportRule
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
from hpcforge.verify.measurements import headline, measurable, missed, numbers, silent_rank, unreported
from hpcforge.verify.process_verdict import judge_tasks
from hpcforge.verify.step_output import RankEnd, RankTransport, Transcript, clean, finite, read
from hpcforge.verify.submit import Launch, Turn
from hpcforge.verify.verdicts import Status, Verdict

# The transport that ranks really used, compared with the one that their test asserts.
#
# Ranks of gloo report the addresses of their connections, by the kernel; ranks of NCCL the transports in its log.
# A number over another transport does not measure the one under test, so this comes before every line.
_MAX_LISTED = 3  # transports that are listed one by one


def transport_blame(job: Launch, turn: Turn, transcript: Transcript) -> Blame | None:
    """Return the fault of the transport, also if it is unknown; None if it is as asserted, or nothing is asserted."""
    rule, backend = turn.program.transport, transcript.result.get("backend") if transcript.result else None
    if rule is None or job.ranks == 1 or not _applies(job, rule, backend):
        return None
    by_rank = {transport.rank: transport for transport in transcript.transports if transport.backend == backend}
    silent = [rank for rank in range(job.ranks) if rank not in by_rank or not by_rank[rank].used]
    if silent:
        other_backend = any(
            transport.rank == silent[0] and transport.backend != backend for transport in transcript.transports
        )
        host = None if other_backend else transcript.started.get(silent[0])  # the backend is what rank 0 reports
        return Blame("unknown", f"rank {silent[0]} did not report the transport it used", silent[0], host)
    every = [by_rank[rank] for rank in range(job.ranks)]
    by_host: dict[str, list[str]] = {}
    for transport in every:
        by_host.setdefault(transport.host, []).extend(transport.used)
    rank_blames = [
        _gloo(turn, transport) if backend == "gloo" else _nccl(rule, transport, by_host[transport.host])
        for transport in every
    ]
    blames = [blame for blame in rank_blames if blame is not None]
    if not blames:
        return None
    if len(blames) == 1:
        return blames[0]
    hosts = {blame.node for blame in blames}
    more = f"; the same for {len(blames) - 1} more of {job.ranks} ranks"
    return Blame(blames[0].status, f"{blames[0].detail}{more}", None, blames[0].node if len(hosts) == 1 else None)


def transport_text(transcript: Transcript) -> str:
    """Name the used transport: `gloo on eth0`, `nccl NET/IB/0/GDRDMA, P2P/CUMEM`; "" if no rank reports it."""
    backends = {transport.backend for transport in transcript.transports}
    if len(backends) != 1:
        return ""
    used = list(
        dict.fromkeys(name for transport in transcript.transports for name in (transport.interfaces or transport.used))
    )
    more = f" and {len(used) - _MAX_LISTED} more" if len(used) > _MAX_LISTED else ""
    return f"{backends.pop()} on {', '.join(sorted(used)[:_MAX_LISTED])}{more}" if used else ""


def _applies(job: Launch, rule: TransportRule, backend: object) -> bool:
    if backend == "gloo":
        return rule.network is not None
    over_rdma = job.fabric is not None and job.fabric.rdma
    return backend == "nccl" and bool(rule.must or rule.must_not) and (over_rdma or not rule.rdma_only)


def _gloo(turn: Turn, transport: RankTransport) -> Blame | None:
    """Return the blame for a connection with another address than its node has on the network."""
    expected = turn.addresses.get(transport.host)
    if expected is None:
        return Blame(
            "unknown", f"it reports the host {transport.host}, which is not a node of the test", transport.rank
        )
    others = [address for address in transport.used if address != expected]
    if not others:
        return None
    actual = f"{transport.interface_of(others[0])}, {others[0]}"
    return Blame(
        "wrong", f"gloo used {actual}, not the network {turn.network} ({expected})", transport.rank, transport.host
    )


def _nccl(rule: TransportRule, transport: RankTransport, of_host: list[str]) -> Blame | None:
    """Return the blame for a transport that a rank must not use, or a required one that no rank of its host uses."""
    names = [f"/{name}/" for name in transport.used]
    barred = next((name for name in rule.must_not if any(f"/{name}/" in used for used in names)), None)
    if barred is not None:
        return Blame("wrong", f"NCCL used {barred}, which this test refuses", transport.rank, transport.host)
    missing = next((name for name in rule.must if not any(f"/{name}/" in f"/{used}/" for used in of_host)), None)
    if missing is not None:
        used = ", ".join(transport.used[:_MAX_LISTED])
        return Blame("wrong", f"NCCL did not use {missing}; it used {used}", transport.rank, transport.host)
    return None


_ENDED_BY_LAUNCHER = -signal.SIGTERM  # torchrun ends the neighbours of a rank that failed
_ENDED_WELL = Completed(0, "", "")
_WAITED_IN_VAIN = ("timed out", "timeout", "time out")


def judge(job: Launch, ran: Completed, end: JobEndReason | None = None) -> tuple[Verdict, ...]:
    """Return the verdicts on a step that was run: on its first test at least, in order, up to the first failure.

    `end`: why Slurm ended the job, if it did.
    """
    if not job.kind.ranked:
        return (judge_tasks(job, ran, end),)
    verdicts = []
    for number, turn in enumerate(job.turns, start=1):
        transcript = read(ran, turn.test, job.layout)
        ended_here = transcript.result is None or number == len(job.turns)
        verdicts.append(_verdict(job, turn, transcript, ran if ended_here else _ENDED_WELL, end))
        if ended_here or _missing(job, turn, transcript):  # else the ranks took the next test
            break
    return tuple(verdicts)


def unheard(job: Launch, ran: Completed, end: JobEndReason | None) -> Mapping[str, str]:
    """Return the nodes that made Slurm end a launch before any test reported, with reasons."""
    if any(read(ran, turn.test, job.layout).spoke for turn in job.turns):
        return {}
    if end is not None and end.nodes:
        return end.nodes
    transcript = read(ran, job.turns[0].test, job.layout)
    failed = [node.name for node in job.nodes if node.name in transcript.failed_nodes]
    return {name: next(line for line in transcript.slurm_errors if name in line) for name in failed}


def _verdict(job: Launch, turn: Turn, transcript: Transcript, ran: Completed, end: JobEndReason | None) -> Verdict:
    program = _program(job, turn)
    by_measure = numbers(program, transcript.measurements)
    verdict = Verdict(
        test=turn.test,
        status="passed",
        nodes=tuple(node.name for node in job.nodes),
        ranks=job.ranks,
        measurements=transcript.measurements,
        assertions=transcript.assertions,
        headline=headline(program, by_measure),
        torch_build=_build(transcript),
        backend=text_of(transcript, "backend"),
        device=text_of(transcript, "device"),
        transport=transport_text(transcript),
        seconds=_seconds(transcript),
    )
    blame = _missing(job, turn, transcript) if ran.rc == 0 else _blame(job, transcript, ran, end)
    if job.step is not None:
        blame = required(job.step, transcript, ran, end, blame)
    if blame is None and not (job.step and job.step.ends == "killed"):
        blame = transport_blame(job, turn, transcript)
    if blame is None and job.step is None and (detail := missed(program, by_measure)):
        blame = Blame("missed", detail.text, None, detail.node)
    return blamed(job, verdict, blame or without_gpus(job, transcript))


def _missing(job: Launch, turn: Turn, transcript: Transcript) -> Blame | None:
    """Return the blame for missing reports in a step that ended well."""
    if wrong := _wrong(job, transcript, _ENDED_WELL) or untrue(transcript):
        return wrong
    if transcript.result is None or not (transcript.measurements or job.step):
        return Blame("unknown", "ended without an error but reported no result: nothing was measured")
    ranks = transcript.result.get("world_size")
    if ranks != job.ranks:
        return Blame("unknown", f"reported results of {clean(ranks, 20)} ranks instead of {job.ranks}")
    silent = sorted(set(range(job.ranks)) - set(transcript.started))
    if silent:
        return Blame("unknown", f"rank {silent[0]} never reported", silent[0], _host(job, transcript, silent[0]))
    if job.step is not None:
        return None
    program = _program(job, turn)
    if without := unreported(program, numbers(program, transcript.measurements), ()):
        return Blame("unknown", without.text)
    if missing := silent_rank(program, transcript.measurements, job.ranks):
        rank, measure = missing
        return Blame("unknown", f"rank {rank} reported no {measure}", rank, _host(job, transcript, rank))
    return None


def _program(job: Launch, turn: Turn) -> SmokeTestProgram:
    """Return the test with the possible measures of a launch's ranks."""
    return measurable(turn.program, job.ranks, job.ranks_per_node)


def _blame(job: Launch, transcript: Transcript, ran: Completed, end: JobEndReason | None) -> Blame:
    witnesses: tuple[Callable[[Launch, Transcript, Completed], Blame | None], ...] = (
        lambda _job, transcript, ran: head_lost(transcript, ran) or altered(transcript),
        _wrong,
        lambda _job, transcript, _ran: untrue(transcript),
        _failed_alone,
        lambda _job, transcript, _ran: by_slurm(transcript, end),
        _overdue,
        _ended_by_signal,
        _silent,
        _never_started,
        _all_waited,
        _failed_together,
        _past_its_limit,
    )
    for witness in witnesses:
        blame = witness(job, transcript, ran)
        if blame:
            return blame
    return Blame("failed", last_words(transcript, ran))


def _wrong(job: Launch, transcript: Transcript, _ran: Completed) -> Blame | None:
    if not transcript.wrong:
        return None
    first = transcript.wrong[0]
    ranks = {rank_end.rank for rank_end in transcript.wrong}
    if len(ranks) == 1:
        return Blame("wrong", first.text, first.rank, first.host)
    detail = (
        f"{len(ranks)} of {job.ranks} ranks have a wrong result, e.g. rank {first.rank} on {first.host}, {first.text}"
    )
    hosts = {rank_end.host for rank_end in transcript.wrong}
    return Blame("wrong", detail, None, first.host if len(hosts) == 1 else None)


def _failed_alone(_job: Launch, transcript: Transcript, _ran: Completed) -> Blame | None:
    return _blame_first([rank_end for rank_end in transcript.failed if rank_end.own])


def _overdue(_job: Launch, transcript: Transcript, _ran: Completed) -> Blame | None:
    """Return the blame if all worked to the limit; a rank that others waited for in vain is left to `_silent`."""
    if not transcript.overdue or any(map(_waited_in_vain, transcript.failed)):
        return None
    return Blame("timed_out", f"not done after {max(transcript.overdue.values()):g} s")


def _ended_by_signal(_job: Launch, transcript: Transcript, _ran: Completed) -> Blame | None:
    spoke = {rank_end.rank for rank_end in transcript.failed} | set(transcript.overdue)
    ended = {
        rank: end for rank, end in transcript.exits.items() if rank not in spoke and end.code != _ENDED_BY_LAUNCHER
    }
    if not ended:
        return None
    rank, (code, host) = min(ended.items(), key=lambda item: (item[1].code >= 0, item[0]))  # signals first
    others = f"; {len(ended) - 1} more ranks ended the same way" if len(ended) > 1 else ""
    return Blame("failed", _exit_text(code) + others, rank, host)


def _silent(job: Launch, transcript: Transcript, ran: Completed) -> Blame | None:
    """Return the blame for ranks that started and did not report, while others waited or the step passed its limit."""
    spoke = {rank_end.rank for rank_end in transcript.failed}
    silent = sorted(set(transcript.started) - spoke)
    if not silent or not spoke:
        return None
    waited = any(map(_waited_in_vain, transcript.failed))
    status: Status = "timed_out" if waited or ran.rc in (TIMED_OUT, None) else "failed"
    did = "did not answer while other ranks waited" if waited else "ended without output"
    place = transcript.places.get(silent[0]) if len(silent) == 1 else None
    did += f", at {place}" if place else ""
    nodes = {_host(job, transcript, rank) for rank in silent}
    if len(silent) == 1:
        return Blame(status, did, silent[0], nodes.pop())
    on_nodes = f" on {fold(sorted(nodes))}" if len(nodes) > 1 else ""
    detail = f"{len(silent)} ranks{on_nodes} {did}: {fold(map(str, silent))}"
    return Blame(status, detail, None, nodes.pop() if len(nodes) == 1 else None)


def _never_started(job: Launch, transcript: Transcript, ran: Completed) -> Blame | None:
    """Return a node without ranks; of several, the one whose launcher ended by itself: others may have waited for it.

    Else the one with the only launcher that was killed before Slurm ended the others. If neither is clear, blame none.
    """
    ran_on = set(transcript.started.values())
    without = [node.name for node in job.nodes if node.name not in ran_on]
    if not without:
        return None
    killed = [
        name for name in without if name in transcript.ended_before and transcript.task_ends[name] != "Terminated"
    ]
    by_itself = next((name for name in transcript.task_exits if name in without), None)
    node = by_itself or next((names[0] for names in (without, killed) if len(names) == 1), None)
    if node is None:
        return Blame("failed", f"no rank started on {fold(without)}: {last_words(transcript, ran)}")
    tasks = {host: task for task, host in transcript.hosts.items()}
    words = transcript.held.get(node) or (last_line(transcript.stderr.get(tasks[node], ())) if node in tasks else "")
    code = (
        f"exit code {transcript.task_exits[node]}"
        if node in transcript.task_exits
        else transcript.task_ends.get(node, "")
    )
    report = "; ".join(text for text in (words, code) if text) or "no output"
    return Blame("failed", f"no rank started: {report}", None, node)


def _all_waited(_job: Launch, transcript: Transcript, _ran: Completed) -> Blame | None:
    """Return the blame if every rank waited past its limit: the first report is then not evidence.

    If all were at the same collective, and just one node's ranks in another function, the others waited for these.
    """
    if not transcript.failed or not all(map(_waited_in_vain, transcript.failed)):
        return None
    at: dict[tuple[int | None, str], list[RankEnd]] = defaultdict(list)
    for rank_end in transcript.failed:
        at[rank_end.number, rank_end.place.partition(" ")[2]].append(rank_end)
    groups = sorted(at.values(), key=len)
    first, last = groups[0][0], groups[-1][0]
    if len(groups) == 2 and first.number == last.number and len(groups[1]) > 1:
        hosts = {rank_end.host for rank_end in groups[0]}
        if len(hosts) == 1 and len(groups[0]) < len(groups[1]):
            detail = f"{first.text}, where {len(groups[1])} others were at {last.place}"
            return Blame("timed_out", detail, first.rank if len(groups[0]) == 1 else None, first.host)
    detail = f"all {len(transcript.failed)} ranks waited, so no rank differs from the others: {last.text}"
    return Blame("timed_out", detail)


def _failed_together(_job: Launch, transcript: Transcript, _ran: Completed) -> Blame | None:
    """Return the first to fail in a collective, without a node if others failed, too: each may be the cause."""
    blame = _blame_first(list(transcript.failed))
    several = len({rank_end.host for rank_end in transcript.failed}) > 1
    return replace(blame, node=None, detail=f"on {blame.node}: {blame.detail}") if blame and several else blame


def _past_its_limit(job: Launch, transcript: Transcript, ran: Completed) -> Blame | None:
    if ran.rc not in (TIMED_OUT, None):
        return None
    missing = sorted({node.name for node in job.nodes} - set(transcript.started.values()))
    note = f"; no output from {fold(missing)}" if missing else ""
    return Blame(
        "timed_out", f"not done after {job.time_limit_s} s{note}", None, missing[0] if len(missing) == 1 else None
    )


def _waited_in_vain(rank_end: RankEnd) -> bool:
    return any(phrase in rank_end.text.lower() for phrase in _WAITED_IN_VAIN)


def _blame_first(failures: list[RankEnd]) -> Blame | None:
    if not failures:
        return None
    first = failures[0]
    return Blame("failed", first.text, first.rank, first.host)


def _host(job: Launch, transcript: Transcript, rank: int) -> str:
    """Return the node of a rank: by its report, else by its number, since ranks fill the nodes in order."""
    host = transcript.started.get(rank)
    return clean(host, 64) if host else job.nodes[min(rank // job.ranks_per_node, len(job.nodes) - 1)].name


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code} without output"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}"


def _seconds(transcript: Transcript) -> float:
    """Return the duration of the test alone, as rank 0 reports it; 0 without a report."""
    value = transcript.result.get("seconds") if transcript.result else None
    return float(value) if finite(value) and value >= 0 else 0.0


def _build(transcript: Transcript) -> str | None:
    """Return the PyTorch that ran, by its own report."""
    version, path = text_of(transcript, "torch"), text_of(transcript, "torch_path")
    if version is None or path is None:
        return None
    if path.startswith("/opt/hpcforge/"):
        return f"{version} from wheel"
    return f"{version} from the distribution" if path.startswith("/usr/lib/") else f"{version} from {path}"
