"""Blame for a step's output. Pure: the same output always gives the same verdict.

When one rank fails, the others fail too, a moment later and often louder. So witnesses are heard in this order:

1. a rank that says its result is wrong, or an assertion that does not hold;
2. a rank that says it failed by itself, outside of a collective;
3. Slurm, that it ended the job, that a node failed, or that a task used too much memory;
4. ranks that ended themselves at the test's time limit, if none had waited in vain for another;
5. torchrun, that a rank was ended by a signal, or went without a word;
6. nobody, of a rank that started and never said how it ended, while others waited for it;
7. a node on which no rank started;
8. ranks that all waited, each past its limit: one node's, if only they stood elsewhere in the program, else none;
9. a rank that failed in a collective.

A test passes only if everything ended well *and* rank 0 reported results from all ranks, with every measure that the
test declares, *and* the ranks used the transport that it asserts, *and* these hold the lines that it draws. If nothing
failed and a part of this is missing, the verdict is `unknown`.

Where tests share a step, ranks end with the first that is not right. So how the step ended is told of the first test
without a result, or else of the last; those before it are judged by what they reported, those after it did not run.
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
# Ranks of gloo report the addresses of their connections, as the kernel lists them; ranks of NCCL the transports in its
# log. A number over another transport says nothing about the one to be tested, so this comes before every line.
_TOLD = 3  # transports that are listed one by one


def transport_blame(job: Launch, turn: Turn, seen: Transcript) -> Blame | None:
    """Return the fault of the transport, also if it is unknown; None if it is as asserted, or nothing is asserted."""
    rule, backend = turn.program.transport, seen.result.get("backend") if seen.result else None
    if rule is None or job.ranks == 1 or not _applies(job, rule, backend):
        return None
    by_rank = {said.rank: said for said in seen.transports if said.backend == backend}
    silent = [rank for rank in range(job.ranks) if rank not in by_rank or not by_rank[rank].used]
    if silent:
        other = any(said.rank == silent[0] and said.backend != backend for said in seen.transports)
        host = None if other else seen.started.get(silent[0])  # the backend is what rank 0 reports
        return Blame("unknown", f"rank {silent[0]} did not report the transport it used", silent[0], host)
    every = [by_rank[rank] for rank in range(job.ranks)]
    by_host: dict[str, list[str]] = {}
    for said in every:
        by_host.setdefault(said.host, []).extend(said.used)
    said_of = [_gloo(turn, said) if backend == "gloo" else _nccl(rule, said, by_host[said.host]) for said in every]
    found = [blame for blame in said_of if blame is not None]
    if not found:
        return None
    if len(found) == 1:
        return found[0]
    hosts = {blame.node for blame in found}
    more = f"; so {len(found) - 1} more of {job.ranks} ranks"
    return Blame(found[0].status, f"{found[0].detail}{more}", None, found[0].node if len(hosts) == 1 else None)


def transport_text(seen: Transcript) -> str:
    """Name the used transport: `gloo on eth0`, `nccl NET/IB/0/GDRDMA, P2P/CUMEM`; "" if no rank reports it."""
    backends = {said.backend for said in seen.transports}
    if len(backends) != 1:
        return ""
    used = list(dict.fromkeys(name for said in seen.transports for name in (said.interfaces or said.used)))
    more = f" and {len(used) - _TOLD} more" if len(used) > _TOLD else ""
    return f"{backends.pop()} on {', '.join(sorted(used)[:_TOLD])}{more}" if used else ""


def _applies(job: Launch, rule: TransportRule, backend: object) -> bool:
    if backend == "gloo":
        return rule.network is not None
    over_rdma = job.fabric is not None and job.fabric.rdma
    return backend == "nccl" and bool(rule.must or rule.must_not) and (over_rdma or not rule.rdma_only)


def _gloo(turn: Turn, said: RankTransport) -> Blame | None:
    """Return the blame for a connection with another address than its node has on the network."""
    expected = turn.addresses.get(said.host)
    if expected is None:
        return Blame("unknown", f"it says that it ran on {said.host}, which is not a node of the test", said.rank)
    others = [address for address in said.used if address != expected]
    if not others:
        return None
    where = f"{said.interface_of(others[0])}, {others[0]}"
    return Blame("wrong", f"gloo used {where}, not the network {turn.network} ({expected})", said.rank, said.host)


def _nccl(rule: TransportRule, said: RankTransport, of_host: list[str]) -> Blame | None:
    """Return the blame for a transport that a rank must not use, or a required one that no rank of its host uses."""
    names = [f"/{name}/" for name in said.used]
    barred = next((name for name in rule.must_not if any(f"/{name}/" in used for used in names)), None)
    if barred is not None:
        return Blame("wrong", f"NCCL used {barred}, which this test refuses", said.rank, said.host)
    missing = next((name for name in rule.must if not any(f"/{name}/" in f"/{used}/" for used in of_host)), None)
    if missing is not None:
        used = ", ".join(said.used[:_TOLD])
        return Blame("wrong", f"NCCL did not use {missing}; it used {used}", said.rank, said.host)
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
        seen = read(ran, turn.test, job.layout)
        ended_here = seen.result is None or number == len(job.turns)
        verdicts.append(_verdict(job, turn, seen, ran if ended_here else _ENDED_WELL, end))
        if ended_here or _missing(job, turn, seen):  # else the ranks took the next test
            break
    return tuple(verdicts)


def unheard(job: Launch, ran: Completed, end: JobEndReason | None) -> Mapping[str, str]:
    """Return the nodes because of which a launch ended before any test printed anything, by Slurm, and why."""
    if any(read(ran, turn.test, job.layout).spoke for turn in job.turns):
        return {}
    if end is not None and end.nodes:
        return end.nodes
    seen = read(ran, job.turns[0].test, job.layout)
    failed = [node.name for node in job.nodes if node.name in seen.failed_nodes]
    return {name: next(line for line in seen.slurm_errors if name in line) for name in failed}


def _verdict(job: Launch, turn: Turn, seen: Transcript, ran: Completed, end: JobEndReason | None) -> Verdict:
    program = _program(job, turn)
    of = numbers(program, seen.measurements)
    verdict = Verdict(
        test=turn.test,
        status="passed",
        nodes=tuple(node.name for node in job.nodes),
        ranks=job.ranks,
        measurements=seen.measurements,
        assertions=seen.assertions,
        headline=headline(program, of),
        torch_build=_build(seen),
        backend=text_of(seen, "backend"),
        device=text_of(seen, "device"),
        transport=transport_text(seen),
        seconds=_seconds(seen),
    )
    blame = _missing(job, turn, seen) if ran.rc == 0 else _blame(job, seen, ran, end)
    if job.step is not None:
        blame = required(job.step, seen, ran, end, blame)
    if blame is None and not (job.step and job.step.ends == "killed"):
        blame = transport_blame(job, turn, seen)
    if blame is None and job.step is None and (detail := missed(program, of)):
        blame = Blame("missed", detail.text, None, detail.node)
    return blamed(job, verdict, blame or without_gpus(job, seen))


def _missing(job: Launch, turn: Turn, seen: Transcript) -> Blame | None:
    """Return the blame for reports that are missing from a step that ended well."""
    if wrong := _wrong(job, seen, _ENDED_WELL) or untrue(seen):
        return wrong
    if seen.result is None or not (seen.measurements or job.step):
        return Blame("unknown", "ended without an error but reported no result: nothing was measured")
    ranks = seen.result.get("world_size")
    if ranks != job.ranks:
        return Blame("unknown", f"reported results of {clean(ranks, 20)} ranks, {job.ranks} were asked for")
    silent = sorted(set(range(job.ranks)) - set(seen.started))
    if silent:
        return Blame("unknown", f"rank {silent[0]} never reported", silent[0], _host(job, seen, silent[0]))
    if job.step is not None:
        return None
    program = _program(job, turn)
    if without := unreported(program, numbers(program, seen.measurements), ()):
        return Blame("unknown", without.text)
    if missing := silent_rank(program, seen.measurements, job.ranks):
        rank, measure = missing
        return Blame("unknown", f"rank {rank} reported no {measure}", rank, _host(job, seen, rank))
    return None


def _program(job: Launch, turn: Turn) -> SmokeTestProgram:
    """Return the test with the measures that the ranks of a launch can have."""
    return measurable(turn.program, job.ranks, job.ranks_per_node)


def _blame(job: Launch, seen: Transcript, ran: Completed, end: JobEndReason | None) -> Blame:
    witnesses: tuple[Callable[[Launch, Transcript, Completed], Blame | None], ...] = (
        lambda _job, seen, ran: head_lost(seen, ran) or altered(seen),
        _wrong,
        lambda _job, seen, _ran: untrue(seen),
        _failed_alone,
        lambda _job, seen, _ran: by_slurm(seen, end),
        _overdue,
        _ended_by_signal,
        _silent,
        _never_started,
        _all_waited,
        _failed_together,
        _past_its_limit,
    )
    for witness in witnesses:
        blame = witness(job, seen, ran)
        if blame:
            return blame
    return Blame("failed", last_words(seen, ran))


def _wrong(job: Launch, seen: Transcript, _ran: Completed) -> Blame | None:
    if not seen.wrong:
        return None
    first = seen.wrong[0]
    ranks = {said.rank for said in seen.wrong}
    if len(ranks) == 1:
        return Blame("wrong", first.text, first.rank, first.host)
    detail = (
        f"{len(ranks)} of {job.ranks} ranks have a wrong result, e.g. rank {first.rank} on {first.host}, {first.text}"
    )
    hosts = {said.host for said in seen.wrong}
    return Blame("wrong", detail, None, first.host if len(hosts) == 1 else None)


def _failed_alone(_job: Launch, seen: Transcript, _ran: Completed) -> Blame | None:
    return _say([said for said in seen.failed if said.own])


def _overdue(_job: Launch, seen: Transcript, _ran: Completed) -> Blame | None:
    """All were at work to the end; a rank that others waited for in vain is for `_silent`, whatever it says itself."""
    if not seen.overdue or any(map(_waited_in_vain, seen.failed)):
        return None
    return Blame("timed_out", f"not done after {max(seen.overdue.values()):g} s")


def _ended_by_signal(_job: Launch, seen: Transcript, _ran: Completed) -> Blame | None:
    spoke = {said.rank for said in seen.failed} | set(seen.overdue)
    ended = {rank: end for rank, end in seen.exits.items() if rank not in spoke and end.code != _ENDED_BY_LAUNCHER}
    if not ended:
        return None
    rank, (code, host) = min(ended.items(), key=lambda item: (item[1].code >= 0, item[0]))  # signals first
    others = f"; so ended {len(ended) - 1} more ranks" if len(ended) > 1 else ""
    return Blame("failed", _exit_text(code) + others, rank, host)


def _silent(job: Launch, seen: Transcript, ran: Completed) -> Blame | None:
    """Ranks that started and said nothing, where others waited for them or the step ran past its limit."""
    spoke = {said.rank for said in seen.failed}
    silent = sorted(set(seen.started) - spoke)
    if not silent or not spoke:
        return None
    waited = any(map(_waited_in_vain, seen.failed))
    status: Status = "timed_out" if waited or ran.rc in (TIMED_OUT, None) else "failed"
    did = "did not answer while other ranks waited" if waited else "ended without a word"
    place = seen.places.get(silent[0]) if len(silent) == 1 else None
    did += f", at {place}" if place else ""
    nodes = {_host(job, seen, rank) for rank in silent}
    if len(silent) == 1:
        return Blame(status, did, silent[0], nodes.pop())
    where = f" on {fold(sorted(nodes))}" if len(nodes) > 1 else ""
    detail = f"{len(silent)} ranks{where} {did}: {fold(map(str, silent))}"
    return Blame(status, detail, None, nodes.pop() if len(nodes) == 1 else None)


def _never_started(job: Launch, seen: Transcript, ran: Completed) -> Blame | None:
    """Return a node without ranks; of several, the one whose launcher ended by itself: others may have waited for it.

    Else the one with the only launcher that was killed before Slurm ended the others. If neither is clear, blame none.
    """
    ran_on = set(seen.started.values())
    without = [node.name for node in job.nodes if node.name not in ran_on]
    if not without:
        return None
    killed = [name for name in without if name in seen.ended_before and seen.task_ends[name] != "Terminated"]
    by_itself = next((name for name in seen.task_exits if name in without), None)
    node = by_itself or next((names[0] for names in (without, killed) if len(names) == 1), None)
    if node is None:
        return Blame("failed", f"no rank started on {fold(without)}: {last_words(seen, ran)}")
    tasks = {host: task for task, host in seen.hosts.items()}
    words = seen.held.get(node) or (last_line(seen.stderr.get(tasks[node], ())) if node in tasks else "")
    code = f"exit code {seen.task_exits[node]}" if node in seen.task_exits else seen.task_ends.get(node, "")
    heard = "; ".join(text for text in (words, code) if text) or "nothing was heard from it"
    return Blame("failed", f"no rank started: {heard}", None, node)


def _all_waited(_job: Launch, seen: Transcript, _ran: Completed) -> Blame | None:
    """Every rank waited past its limit, so none of them is named for being the first to say so.

    Where all were at the same collective, and just one node's ranks in another function, the others waited for these.
    """
    if not seen.failed or not all(map(_waited_in_vain, seen.failed)):
        return None
    at: dict[tuple[int | None, str], list[RankEnd]] = defaultdict(list)
    for each in seen.failed:
        at[each.number, each.place.partition(" ")[2]].append(each)
    groups = sorted(at.values(), key=len)
    first, last = groups[0][0], groups[-1][0]
    if len(groups) == 2 and first.number == last.number and len(groups[1]) > 1:
        hosts = {each.host for each in groups[0]}
        if len(hosts) == 1 and len(groups[0]) < len(groups[1]):
            detail = f"{first.text}, where {len(groups[1])} others were at {last.place}"
            return Blame("timed_out", detail, first.rank if len(groups[0]) == 1 else None, first.host)
    detail = f"all {len(seen.failed)} ranks waited, so none can be told from the others: {last.text}"
    return Blame("timed_out", detail)


def _failed_together(_job: Launch, seen: Transcript, _ran: Completed) -> Blame | None:
    """Return the first to fail in a collective, without a node if others failed, too: each may be the cause."""
    blame = _say(list(seen.failed))
    several = len({said.host for said in seen.failed}) > 1
    return replace(blame, node=None, detail=f"on {blame.node}: {blame.detail}") if blame and several else blame


def _past_its_limit(job: Launch, seen: Transcript, ran: Completed) -> Blame | None:
    if ran.rc not in (TIMED_OUT, None):
        return None
    missing = sorted({node.name for node in job.nodes} - set(seen.started.values()))
    where = f"; nothing was heard from {fold(missing)}" if missing else ""
    return Blame(
        "timed_out", f"not done after {job.time_limit_s} s{where}", None, missing[0] if len(missing) == 1 else None
    )


def _waited_in_vain(said: RankEnd) -> bool:
    return any(phrase in said.text.lower() for phrase in _WAITED_IN_VAIN)


def _say(failures: list[RankEnd]) -> Blame | None:
    if not failures:
        return None
    first = failures[0]
    return Blame("failed", first.text, first.rank, first.host)


def _host(job: Launch, seen: Transcript, rank: int) -> str:
    """Where a rank runs: as it said, else by its number, since ranks fill the nodes in order."""
    said = seen.started.get(rank)
    return clean(said, 64) if said else job.nodes[min(rank // job.ranks_per_node, len(job.nodes) - 1)].name


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code} and without a word"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}"


def _seconds(seen: Transcript) -> float:
    """Return the duration of the test alone, as rank 0 reports it; 0 without a report."""
    value = seen.result.get("seconds") if seen.result else None
    return float(value) if finite(value) and value >= 0 else 0.0


def _build(seen: Transcript) -> str | None:
    """Which PyTorch ran, by what it said of itself."""
    version, path = text_of(seen, "torch"), text_of(seen, "torch_path")
    if version is None or path is None:
        return None
    if path.startswith("/opt/hpcforge/"):
        return f"{version} from wheel"
    return f"{version} from the distribution" if path.startswith("/usr/lib/") else f"{version} from {path}"
