"""Which parameters of slurm.conf a blueprint takes."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from hpcforge.blueprint import values as v
from hpcforge.starter.readers.slurm_settings import Settings, cluster_settings, problem
from hpcforge.starter.readers.slurm_words import Ledger, Word, statements

SETTINGS = Settings.of_usual_system(shown=False)


def word(text: str) -> Word:
    [statement] = statements(text, None, Ledger())
    return next(iter(statement.words.values()))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SchedulerType=sched/backfill", None),
        ("schedulerparameters=bf_window=2880,bf_continue", None),
        ("PriorityWeightFairshare=100000", None),
        ("PreemptType=preempt/partition_prio", None),
        ("PreemptType=preempt/qos", "services.accounting"),
        ("AccountingStorageType=accounting_storage/none", "services.accounting"),
        ("TopologyPlugin=topology/tree", "slurm.topology"),
        ("BackupController=b", "no backup controller"),
        ("SelectType=select/cons_tres", "hpcforge sets it"),
        ("Epilog=/etc/epilog", "hpcforge sets it"),
        ("JobSubmitPlugins=lua", "a plugin"),
        ("FastSchedule=1", "no longer has it"),
        ("CacheGroups=0", "no longer has it"),
        ("TreeWidht=50", "does not know it"),
        ("TreeWidth=many", "expects a whole number"),
        ('Licenses="a, b"', "is not a value for slurm.conf"),
        ("TmpFS=/scratch", "a file or a folder"),
        ("SuspendTime=60", "switch nodes off"),
    ],
)
def test_settings_of_the_cluster(text: str, reason: str | None) -> None:
    answer = SETTINGS.of_cluster(word(text))
    assert answer is None if reason is None else answer and reason in answer


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PriorityTier=10", None),
        ("OverSubscribe=FORCE:4", None),
        ("PreemptMode=OFF", None),
        ("OverSubscribe=PERHAPS", "expects NO"),
        ("AllowAccounts=phys", "slurm.accounts"),
        ("AllowGroups=phys", "these groups"),
        ("QOS=long", "slurm.qos"),
        ('TRESBillingWeights="cpu=1"', "`billing`"),
        ("Colour=red", "does not know it"),
    ],
)
def test_settings_of_a_partition(text: str, reason: str | None) -> None:
    answer = SETTINGS.of_partition(word(text))
    assert answer is None if reason is None else answer and reason in answer


def test_the_last_of_each_name_counts_and_is_spelled_as_slurm_spells_it() -> None:
    ledger = Ledger()
    lines = statements("KILLWAIT=30\nPrologFlags=contain\nKillWait=60\n", None, ledger)
    assert cluster_settings(lines, ledger, SETTINGS) == {"PrologFlags": "contain", "KillWait": "60"}
    assert [(each.line, each.text) for each in ledger.left_out(lambda word: "")] == [(1, "KILLWAIT=30")]
    assert SETTINGS.spelled("prioritytier") == "PriorityTier"


def test_a_problem_is_what_a_blueprint_says() -> None:
    name: TypeAdapter[str] = TypeAdapter(v.PartitionName)
    assert problem(name, "GPU.long") is None
    assert "not a name of a partition" in str(problem(name, "a+b"))
