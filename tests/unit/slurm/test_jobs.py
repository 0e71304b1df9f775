"""Lines of squeue: a job's name is a user's, and may look like anything."""

from __future__ import annotations

import time

import pytest

from hpcforge.slurm.jobs import Column, Job, read, squeue
from tests.support.long_hostlists import LONG

HOLDER: tuple[Column, ...] = ("number", "user", "name", "nodes")


def test_what_is_asked_for_is_what_is_read() -> None:
    assert squeue(HOLDER, "RUNNING", "--nodelist=w1") == (
        "squeue", "--noheader", "--states=RUNNING", "--nodelist=w1", "--format=%A|%u|%j|%N",
    )  # fmt: skip
    said = "20|ada|train|w[1-2]\n21|bob|a||b|w2\n22|eve|short\n x|eve|no number|w1\n"
    assert list(read(said, HOLDER)) == [
        Job(number="20", user="ada", name="train", nodes="w[1-2]"),
        Job(number="21", user="bob", name="a||b", nodes="w2"),
    ]


def test_free_text_comes_last_or_not_at_all() -> None:
    assert [job.reason for job in read("7_1|PENDING|Nodes down | drained\n", ("id", "state", "reason"))] == [
        "Nodes down | drained"
    ]
    assert list(read("7|w1|more\n", ("number", "nodes"))) == []


def test_nodes_that_are_no_hostlist_are_none() -> None:
    assert Job(nodes="w[1-2]").holds == ("w1", "w2")
    assert Job(nodes="w[2-").holds == Job(nodes="$(reboot)").holds == Job().holds == ()


@pytest.mark.parametrize("nodes", LONG, ids=lambda text: f"{text[:12]} of {len(text)}")
def test_a_long_node_list_of_squeue_takes_no_time(nodes: str) -> None:
    start = time.process_time()
    held = [job.holds for job in read(f"20|ada|train|{nodes}\n21|bob|eval|w1\n", HOLDER)]
    assert held == [(), ("w1",)]
    assert time.process_time() - start < 1
