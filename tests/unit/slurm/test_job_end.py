"""How a job ended, by records that Slurm 22.05 of Debian 12 gave of real ones (ended/)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.slurm.job_end import JobEnd, cancelled_by, cause, is_unplaceable, never_starts, parse

HERE = Path(__file__).parent / "ended"


def record(name: str) -> JobEnd:
    found = parse((HERE / f"{name}.txt").read_text())
    assert found is not None
    return found


CAUSES = {
    "prolog": "was cancelled (Slurm: CANCELLED)",
    "launch": "was cancelled before it began (Slurm: CANCELLED)",
    "cancelled": "was cancelled (Slurm: CANCELLED)",
    "node_completing": "ended because a node failed (Slurm: NODE_FAIL, NodeDown)",
    "time_limit_completing": "ran into its time limit of 00:01:00 (Slurm: TIMEOUT, TimeLimit)",
    "time_limit": "ran into its time limit of 00:01:00 (Slurm: TIMEOUT, TimeLimit)",
    "node": "ended because a node failed (Slurm: NODE_FAIL, NodeDown)",
}


@pytest.mark.parametrize("name", CAUSES)
def test_each_end_is_told_in_words(name: str) -> None:
    seen = record(name)
    assert seen.over
    assert seen.final
    assert cause(seen) == CAUSES[name]


def test_a_job_that_runs_is_not_over_and_one_that_completes_has_yet_to_say() -> None:
    assert not record("in_prolog").over
    completing = record("completing")
    assert completing.over
    assert not completing.final


def test_every_recorded_end_is_looked_at() -> None:
    assert {path.stem for path in HERE.iterdir()} == {*CAUSES, "in_prolog", "completing"}


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("TIMEOUT", "TimeLimit", "ran into its time limit of 00:11:00 (Slurm: TIMEOUT, TimeLimit)"),
        ("TIMEOUT", "AssocGrpCPUMinutesLimit", "ran into a limit of its account (Slurm: TIMEOUT, "),
        ("OUT_OF_MEMORY", "OutOfMemory", "used more memory than it had asked for (Slurm: OUT_OF_MEMORY, OutOfMemory)"),
        ("PREEMPTED", "None", "gave way to a job of higher priority (Slurm: PREEMPTED)"),
        ("BOOT_FAIL", "None", "ended because a node did not boot (Slurm: BOOT_FAIL)"),
        ("DEADLINE", "DeadLine", "ended at its deadline (Slurm: DEADLINE, DeadLine)"),
        ("SPECIAL_EXIT", "None", "ended (Slurm: SPECIAL_EXIT)"),
    ],
)
def test_other_ends(state: str, reason: str, said: str) -> None:
    assert cause(JobEnd(state, reason, time_limit="00:11:00")).startswith(said)


def test_what_follows_in_a_comment_does_not_count() -> None:
    line = (
        HERE / "node.txt"
    ).read_text().strip() + " Comment=x JobState=RUNNING Reason=None ExitCode=0:0 TimeLimit=9\n"
    assert parse(line) == record("node")


@pytest.mark.parametrize(
    "output", ["", "slurm_load_jobs error: Invalid job id specified\n", "JobId=1 JobState=RUNNING\n"]
)
def test_what_is_no_record_says_nothing(output: str) -> None:
    assert parse(output) is None


def test_who_cancelled_it_is_known_where_there_is_accounting() -> None:
    assert cancelled_by("CANCELLED by 2001\n") == 2001
    assert cancelled_by("CANCELLED\n") is None
    assert cancelled_by("Slurm accounting storage is disabled\n") is None


def test_a_job_that_waits_for_others_may_start_and_one_over_its_own_limit_never() -> None:
    never = (
        "QOSMaxNodePerJobLimit", "AssocMaxWallDurationPerJobLimit", "QOSMaxMemoryPerJob", "QOSMinGRES", "InvalidQOS",
        "PartitionTimeLimit", "BadConstraints",
    )  # fmt: skip
    later = (
        "None",
        "Priority",
        "Resources",
        "Prolog",
        "QOSGrpNodeLimit",
        "AssocMaxJobsLimit",
        "QOSMaxNodePerUserLimit",
    )
    assert [never_starts(reason) for reason in never] == [True] * len(never)
    assert [never_starts(reason) for reason in later] == [False] * len(later)


@pytest.mark.parametrize(
    ("words", "unplaceable"),
    [
        # aws/aws-parallelcluster, issue 282: more nodes than there are
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available", True),
        # AaltoSciComp/scicomp-docs, triton/usage/faq: a node that the partition lacks
        ("srun: error: Unable to allocate resources: Requested node configuration is not available", True),
        # SchedMD/slurm, testsuite: topology/block; Slurm 24.11 for nodes without a common switch
        ("sbatch: error: Batch job submission failed: Requested topology configuration is not available", True),
        ("salloc: error: Job submit/allocate failed: Requested topology configuration is not available", True),
        ("allocation failure: Requested node configuration is not available", True),
        ("BadConstraints", True),  # squeue(1), of a job that waits
        ("srun: error: Unable to allocate resources: Requested nodes are busy", False),  # they are given back
        ("Requested partition configuration not available now", False),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination", False),
        ("Resources", False),
        ("ReqNodeNotAvail, UnavailableNodes:w2", False),
        ("", False),
    ],
)
def test_words_for_a_job_that_cannot_be_placed(words: str, unplaceable: bool) -> None:
    assert is_unplaceable(words) == unplaceable
