"""What ranks report of their transport, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpcforge.cluster.model import FabricOf, TransportRule
from hpcforge.verify import submit
from hpcforge.verify.head import Completed
from hpcforge.verify.step_verdict import judge
from hpcforge.verify.verdicts import Verdict
from tests.unit.verify.conftest import Build, shipped_program
from tests.unit.verify.test_step_verdict import by_rank

NCCL = TransportRule(rdma_only=True, must=("NET/IB",), must_not=("NET/Socket",))


@pytest.fixture
def job(build: Build) -> submit.Launch:
    cluster = build()
    assert cluster.acceptance
    (test, *_) = cluster.acceptance.tests
    return submit.launch(cluster, [replace(test, program=shipped_program("allreduce"))], ("w1", "w2"))


def said(backend: str, used: dict[int, list[str]], interfaces: tuple[str, ...] = ("eth0",)) -> str:
    events: list[dict[str, Any]]
    events = [{"event": "started", "rank": rank, "host": f"w{rank // 2 + 1}"} for rank in range(4)]
    events.append({"event": "measurement", "size_bytes": 4096, "busbw_gb_per_s": 1.5})
    events.append({"event": "result", "world_size": 4, "backend": backend, "device": "cpu"})
    for rank, names in used.items():
        told = {"rank": rank, "host": f"w{rank // 2 + 1}", "backend": backend, "used": names}
        events.append({"event": "transport", **told, "interfaces": list(interfaces)})
    return by_rank(events)


def judged(job: submit.Launch, stdout: str) -> Verdict:
    (verdict,) = judge(job, Completed(0, stdout, ""))
    return verdict


def right() -> dict[int, list[str]]:
    return {rank: [f"10.77.0.{11 + rank // 2}"] for rank in range(4)}


def test_the_network_of_the_nodes_passes(job: submit.Launch) -> None:
    verdict = judged(job, said("gloo", right()))
    assert (verdict.status, verdict.transport) == ("passed", "gloo on eth0")


def test_one_rank_on_another_network_is_named_before_any_number_counts(job: submit.Launch) -> None:
    verdict = judged(job, said("gloo", {**right(), 3: ["127.0.0.1"]}, ("lo",)))
    assert (verdict.status, verdict.rank, verdict.node) == ("wrong", 3, "w2")
    assert verdict.detail == "gloo used lo, 127.0.0.1, not the network cluster (10.77.0.12)"


def test_all_ranks_on_another_network_blame_no_node(job: submit.Launch) -> None:
    verdict = judged(job, said("gloo", {key: ["10.9.0.1"] for key in range(4)}, ("mgmt0",)))
    assert (verdict.status, verdict.node) == ("wrong", None)
    assert verdict.detail.endswith("; the same for 3 more of 4 ranks")


@pytest.mark.parametrize("used", [{}, {0: ["10.77.0.11"]}, {**right(), 2: []}])
def test_without_a_report_of_every_rank_it_cannot_be_told(job: submit.Launch, used: dict[int, list[str]]) -> None:
    verdict = judged(job, said("gloo", used))
    assert verdict.status == "unknown"
    assert "did not report the transport" in verdict.detail


def nccl(job: submit.Launch, *, rdma: bool = True) -> submit.Launch:
    (turn,) = job.turns
    fabric = FabricOf("fast", "infiniband" if rdma else "ethernet", 400.0, 1, False)
    return replace(job, fabric=fabric, turns=(replace(turn, program=replace(turn.program, transport=NCCL)),))


def test_nccl_over_sockets_is_refused_where_nodes_share_an_rdma_fabric(job: submit.Launch) -> None:
    fast = {key: ["NET/IB/0/GDRDMA", "P2P/CUMEM"] for key in range(4)}
    assert judged(nccl(job), said("nccl", fast, ())).passed
    verdict = judged(nccl(job), said("nccl", {**fast, 2: ["NET/Socket/0"]}, ()))
    assert (verdict.status, verdict.node) == ("wrong", "w2")
    assert verdict.detail == "NCCL used NET/Socket, which this test refuses"
    verdict = judged(nccl(job), said("nccl", {**fast, 2: ["SHM/direct"]}, ()))
    assert verdict.passed  # another rank of its host reaches the network
    verdict = judged(nccl(job), said("nccl", {**fast, 2: ["SHM/direct"], 3: ["SHM/direct"]}, ()))
    assert verdict.node == "w2"
    assert verdict.detail == "NCCL did not use NET/IB; it used SHM/direct; the same for 1 more of 4 ranks"
    assert judged(nccl(job, rdma=False), said("nccl", {key: ["NET/Socket/0"] for key in range(4)}, ())).passed


def test_what_a_rank_says_is_not_believed(job: submit.Launch) -> None:
    odd = said("gloo", right()).replace('"used": ["10.77.0.12"]', '"used": {"a": 1}')
    assert judged(job, odd).status == "unknown"
    assert judged(job, said("gloo", {**right(), 0: ["\x1b[31m" * 50]})).status == "wrong"
