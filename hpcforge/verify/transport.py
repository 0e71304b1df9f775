"""The transport that ranks really used, compared with the one that their test asserts. Pure.

Ranks of gloo report the addresses of their connections, as the kernel lists them; ranks of NCCL the transports in its
log. A number over another transport says nothing about the one to be tested, so this comes before every line.
"""

from __future__ import annotations

from hpcforge.cluster.model import TransportRule
from hpcforge.verify.attribution import Blame
from hpcforge.verify.step_output import RankTransport, Transcript
from hpcforge.verify.submit import Launch, Turn

_TOLD = 3  # transports that are listed one by one


def transport_blame(job: Launch, turn: Turn, seen: Transcript) -> Blame | None:
    """What is wrong with the transport, or not known of it; None if it is as asserted, or nothing is."""
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
    """What was used, in a few words: `gloo on eth0`, `nccl NET/IB/0/GDRDMA, P2P/CUMEM`; "" if no rank says so."""
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
    """A connection with another address than its node has on the network."""
    expected = turn.addresses.get(said.host)
    if expected is None:
        return Blame("unknown", f"it says that it ran on {said.host}, which is not a node of the test", said.rank)
    others = [address for address in said.used if address != expected]
    if not others:
        return None
    where = f"{said.interface_of(others[0])}, {others[0]}"
    return Blame("wrong", f"gloo used {where}, not the network {turn.network} ({expected})", said.rank, said.host)


def _nccl(rule: TransportRule, said: RankTransport, of_host: list[str]) -> Blame | None:
    """A transport that a rank must not use, or one that no rank of its host uses and some must."""
    names = [f"/{name}/" for name in said.used]
    barred = next((name for name in rule.must_not if any(f"/{name}/" in used for used in names)), None)
    if barred is not None:
        return Blame("wrong", f"NCCL used {barred}, which this test refuses", said.rank, said.host)
    missing = next((name for name in rule.must if not any(f"/{name}/" in f"/{used}/" for used in of_host)), None)
    if missing is not None:
        used = ", ".join(said.used[:_TOLD])
        return Blame("wrong", f"NCCL did not use {missing}; it used {used}", said.rank, said.host)
    return None
