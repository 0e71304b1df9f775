"""The output of a step, sorted: nothing in it has the right type by itself."""

from __future__ import annotations

import json

import pytest

from hpcforge.verify.head import Completed
from hpcforge.verify.step_events import TaskLayout
from hpcforge.verify.step_output import clean, finite, port_of, read, scratch_of
from tests.unit.verify.conftest import Build

THREE = TaskLayout(("w1", "w2", "w3"), ranks=2)


def line(task: int, **event: object) -> str:
    return f"{task}: {json.dumps(event)}\n"


@pytest.mark.parametrize("event", ["failed", "wrong", "overdue"])
def test_a_rank_of_another_node_is_not_believed(build: Build, event: str) -> None:
    honest = "".join(line(task, event="node", host=f"w{task + 1}") for task in range(3))
    for rank in (0, 3, 6, -1, True, 4.0):
        stdout = honest + line(2, event=event, rank=rank, host="w2", error="x", limit_s=1)
        seen = read(Completed(1, stdout, ""), "allreduce", THREE)
        assert not (seen.failed or seen.wrong or seen.overdue)


def test_a_rank_is_where_its_task_is_whatever_started_claims() -> None:
    stdout = line(1, event="started", rank=2, host="w2") + line(2, event="started", rank=2, host="w3")
    assert read(Completed(1, stdout, ""), "allreduce", THREE).started == {2: "w2"}


def test_only_the_node_of_rank_0_reports_for_all() -> None:
    said_by_others = line(2, event="measurement", busbw_gb_per_s=1e9) + line(2, event="result", world_size=6)
    seen = read(Completed(0, said_by_others, ""), "allreduce", THREE)
    assert (seen.measurements, seen.result) == ((), None)
    of_rank_0 = line(0, event="measurement", busbw_gb_per_s=1.5, host="w2")
    assert read(Completed(0, of_rank_0, ""), "allreduce", THREE).measurements == ({"busbw_gb_per_s": 1.5},)


@pytest.mark.parametrize("separator", ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_no_character_of_a_task_makes_a_line_with_another_label(separator: str) -> None:
    forged = f'2: x{separator}1: {{"event": "failed", "rank": 2, "host": "w2", "error": "x"}}\n'
    assert read(Completed(1, forged, ""), "allreduce", THREE).failed == ()


def test_clean() -> None:
    assert clean("a\n b\x1b[31m\tc") == "a b [31m c"


@pytest.mark.parametrize(
    ("text", "limit", "flat"),
    [("a" * 10, 10, "a" * 10), ("a" * 11, 10, "a" * 7 + "..."), (None, 10, "None"), ("  a \u2028 b\x00", 10, "a b")],
)
def test_a_text_is_one_line_of_bounded_length(text: object, limit: int, flat: str) -> None:
    assert clean(text, limit) == flat


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (1, True),
        (-1.5, True),
        (10**400, False),
        (float("nan"), False),
        (float("inf"), False),
        ("1", False),
        (None, False),
    ],
)
def test_only_numbers_that_can_be_compared_are_finite(value: object, result: bool) -> None:
    assert finite(value) is result


@pytest.mark.parametrize(
    ("event", "number"),
    [
        ({"event": "scratch", "number": 2}, 2),
        ({"event": "scratch", "number": -1}, None),
        ({"event": "scratch", "number": "2"}, None),
        ({"event": "port", "number": 2}, None),
    ],
)
def test_the_number_of_a_scratch_folder_is_a_count(event: dict[str, object], number: int | None) -> None:
    assert scratch_of(f"0: {json.dumps(event)}\n") == number


@pytest.mark.parametrize(("port", "result"), [(1, 1), (65535, 65535), (65536, None), (0, None), ("80", None)])
def test_a_port_is_one_of_tcp(port: object, result: int | None) -> None:
    assert port_of(line(0, event="port", port=port)) == result


def test_a_measurement_keeps_numbers_and_short_texts() -> None:
    event = {"size": 1, "nan": "x" * 200, "truth": True, "huge": 10**400, "list": [1], "of": {"gpu": 3, "bad": None}}
    seen = read(Completed(0, line(0, event="measurement", **event), ""), "allreduce", THREE)
    [measurement] = seen.measurements
    assert measurement == {"size": 1, "nan": "x" * 97 + "...", "of_gpu": 3}


def test_an_assertion_without_a_number_does_not_hold_and_comes_first() -> None:
    numbers = {"expected": 1.0, "got": 1.0, "error": 0.0, "tolerance": 0.1}
    text = line(0, event="assertion", what="good", **numbers) + line(0, event="assertion", what="bad", got="x")
    seen = read(Completed(0, text, ""), "allreduce", THREE)
    assert [(assertion.what, assertion.holds) for assertion in seen.assertions] == [("bad", False), ("good", True)]


def test_ends_of_tasks_are_those_that_slurm_names() -> None:
    hosts = "".join(line(task, event="node", host=f"w{task + 1}") for task in range(3))
    stderr = (
        "srun: error: w[1-2]: tasks 0-1: Exited with exit code 3\n"
        "srun: error: w2: task 1: Killed\n"
        "0: slurmstepd: error: *** STEP 7.0 ON w1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
        "srun: error: w3: task 2: Out Of Memory\n"
        "srun: error: w9: task 2: Killed\n"
    )
    seen = read(Completed(1, hosts, stderr), "allreduce", THREE)
    assert seen.task_ends == {
        "w1": "Exited with exit code 3", "w2": "Exited with exit code 3", "w3": "Out Of Memory",
    }  # fmt: skip
    assert (seen.task_exits, seen.ended_before) == ({"w1": 3, "w2": 3}, {"w1", "w2"})
    assert seen.over_memory == {"w3": "Out Of Memory"}
