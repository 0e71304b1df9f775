"""Jobs and nodes as Slurm reports them to the head."""

from __future__ import annotations

import time

import pytest

from hpcforge.verify import jobs
from hpcforge.verify.head import Completed
from hpcforge.verify.jobs import busy
from tests.unit.verify.test_verify import ScriptedHead, ok


def test_a_wait_is_printed_every_thirty_seconds() -> None:
    told: list[str] = []
    times = iter([0.0, 5.0, 29.9, 30.0, 31.0, 59.9, 61.0, 62.0])
    hold = jobs.HeldAllocation(ScriptedHead(), "12", time.monotonic() + 600, told.append)
    stay = hold.waiting("6 ranks on w[01-03]", 1200, lambda: next(times))
    for _ in range(7):
        stay()
    assert told == [f"waiting for 6 ranks on w[01-03]: {waited} s of at most 1200 s" for waited in (30, 61)]


def test_whom_jobs_hold() -> None:
    said = "20|ada|train|w[1-2]\n21|bob|a|b|w2\n22|tests|hpcforge-allreduce|w3\nodd\n23|x|y|\n24|x|y|w[2-\n"
    head = ScriptedHead(squeue=[ok(said)])
    assert busy(head, ["w2", "w3"], "tests") == {"w2": "job 20, ada's train"}
    assert busy(head, ["w1", "w2"], "tests")["w1"] == "job 20, ada's train"
    assert busy(ScriptedHead(squeue=[ok("25|eve|hpcforge-allreduce|w3\n")]), ["w3"], "tests") == {
        "w3": "job 25, eve's hpcforge-allreduce"
    }


def test_nodes_whose_jobs_are_not_listed_count_as_held() -> None:
    head = ScriptedHead(squeue=[Completed(127, "", "sh: squeue: not found")])
    assert busy(head, ["w1"], "tests") == {"w1": "a job that squeue may not list: sh: squeue: not found"}


def test_several_jobs_are_asked_for_in_one_query() -> None:
    head = ScriptedHead(squeue=[ok("1|RUNNING|None\n2|PENDING|Priority\n")])
    seen = jobs.states(head, ["1", "2", "3"])
    assert len(head.asked) == 1
    assert [state.state for state in seen.values()] == ["RUNNING", "PENDING", "GONE"]


def test_a_silent_squeue_is_not_taken_for_the_end_of_jobs() -> None:
    head = ScriptedHead(squeue=[Completed(1, "", "slurm_load_jobs error: Unable to contact slurm controller\n")])
    assert jobs.states(head, ["1"])["1"].waiting


def test_unusable_nodes_are_told_with_slurms_reason() -> None:
    rows = "w1|idle|none\nw2|drained|bad memory\nw3|idle*|none\nw4|mixed|none\nw5|down*|Not responding\nother|down|x\n"
    assert jobs.unusable(ScriptedHead(sinfo=[ok(rows)]), [f"w{number}" for number in range(1, 6)]) == {
        "w2": "drained: bad memory",
        "w3": "not responding",
        "w5": "not responding: Not responding",
    }


@pytest.mark.parametrize(
    ("state", "reason", "waiting", "in_prolog", "never_starts"),
    [
        ("PENDING", "Priority", True, False, False),
        ("PENDING", "AccountNotAllowed", True, False, True),
        ("CONFIGURING", "Prolog", False, True, False),
        ("RUNNING", "Prolog", False, True, False),
        ("RUNNING", "None", False, False, False),
        ("CANCELLED", "Prolog", False, False, False),
    ],
)
def test_a_job_waits_until_its_prolog_begins(
    state: str, reason: str, waiting: bool, in_prolog: bool, never_starts: bool
) -> None:
    job = jobs.JobState(state, reason)
    assert (job.waiting, job.in_prolog, job.never_starts) == (waiting, in_prolog, never_starts)


def test_the_first_causes_are_named_and_others_counted() -> None:
    causes = {f"w{number}": "down" for number in range(1, 6)}
    assert jobs.describe(causes) == "w1 down; w2 down; w3 down; and 2 more"
    assert jobs.describe(causes, limit=5).endswith("; w5 down")


def test_jobs_on_nodes_are_named_but_for_the_tests_own() -> None:
    rows = "20|ada|train|w[1-2]\n12|tests|hpcforge-x|w3\n"
    head = ScriptedHead(occupants=[ok(rows)])
    assert jobs.occupants(head, ["w1", "w3"], "12") == {"20": "ada's train on w[1-2]"}


def test_a_start_is_waited_for_until_the_limit() -> None:
    head = ScriptedHead(squeue=[ok("12|PENDING|Priority\n")])
    clock, messages = iter(range(100)), list[str]()
    states = jobs.wait_for_start(
        head, ["12"], limit_s=3, progress=messages.append, clock=lambda: next(clock), sleep=lambda _: None
    )
    assert states["12"].waiting
    assert messages == ["waiting: Priority; at most 3 s"]
    gone = ScriptedHead(squeue=[Completed(1, "", "slurm_load_jobs error: Invalid job id specified")])
    assert jobs.wait_for_start(gone, ["12"], limit_s=3, progress=messages.append) == {"12": jobs.GONE}
