"""Why Slurm ended a test's job, and which nodes it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.verify.head import Completed
from hpcforge.verify.job_end_reason import JobEndReason, end_of
from hpcforge.verify.submit import Launch, launch
from tests.unit.verify.conftest import Build
from tests.unit.verify.test_verify import ScriptedHead, ok

ENDED = Path(__file__).parents[1] / "slurm" / "ended"
DOWN = "w1|idle|none\nw2|down*|Not responding\n"


@pytest.fixture
def job(build: Build) -> Launch:
    cluster = build()
    assert cluster.acceptance
    return launch(cluster, cluster.acceptance.tests[:1], ("w1", "w2"))


def record(name: str) -> Completed:
    return ok((ENDED / f"{name}.txt").read_text())


def reason(job: Launch, head: ScriptedHead, *, in_prolog: bool = False) -> JobEndReason | None:
    return end_of(head, job, "12", lambda: None, in_prolog=in_prolog)


@pytest.mark.parametrize(
    ("name", "sinfo", "nodes", "status"),
    [
        ("node", DOWN, {"w2": "not responding: Not responding"}, "failed"),
        ("node", "w1|idle|none\nw2|idle|none\n", {}, "failed"),
        ("time_limit", DOWN, {}, "timed_out"),  # no node can be why
        ("cancelled", "w1|drained|memory\nw2|idle|none\n", {"w1": "drained: memory"}, "failed"),
    ],
)
def test_nodes_are_at_fault_where_slurm_took_them_out_of_use(
    job: Launch, name: str, sinfo: str, nodes: dict[str, str], status: str
) -> None:
    end = reason(job, ScriptedHead(scontrol=[record(name)], sinfo=[ok(sinfo)]))
    assert end is not None
    assert (end.nodes, end.status) == (nodes, status)


def test_of_several_nodes_those_that_are_away_are_why_a_node_failed(job: Launch) -> None:
    sinfo = "w1|drained|memory\nw2|down*|Not responding\n"
    end = reason(job, ScriptedHead(scontrol=[record("node")], sinfo=[ok(sinfo)]))
    assert end is not None and list(end.nodes) == ["w2"]


@pytest.mark.parametrize("answer", [record("in_prolog"), ok("odd"), Completed(1, "", "no answer")])
def test_a_job_that_runs_or_is_not_told_of_has_no_end(job: Launch, answer: Completed) -> None:
    assert reason(job, ScriptedHead(scontrol=[answer])) is None


def test_a_user_who_cancelled_the_job_is_named_and_no_node(job: Launch) -> None:
    head = ScriptedHead(
        scontrol=[record("cancelled")], sacct=[ok("CANCELLED by 2001\n")], id=[ok("ada\n")], sinfo=[ok(DOWN)]
    )
    end = reason(job, head)
    assert end is not None
    assert (end.nodes, end.cause.endswith(", by ada")) == ({}, True)


def test_a_prolog_that_failed_is_why_its_node_is_out(job: Launch) -> None:
    sinfo = ok("w1|idle|none\nw2|drained|Prolog error\n")
    end = reason(job, ScriptedHead(scontrol=[record("prolog")], sinfo=[sinfo]), in_prolog=True)
    assert end is not None
    assert (end.node, "prolog" in end.cause) == ("w2", True)


@pytest.mark.parametrize(
    ("nodes", "node", "command", "detail"),
    [
        ({}, None, "scontrol show job 12", "ended"),
        ({"w1": "down"}, "w1", "scontrol show node w1", "down; ended"),
        ({"w1": "down", "w2": "down"}, None, "scontrol show job 12", "w1 down; w2 down; ended"),
    ],
)
def test_one_node_is_shown_by_itself(nodes: dict[str, str], node: str | None, command: str, detail: str) -> None:
    end = JobEndReason("12", "ended", nodes)
    assert (end.node, end.next_command, end.detail) == (node, command, detail)
