"""What `status` and `status --history` print, whole."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.plan.roster import Enrolled
from hpcforge.report.status import history_table, status_json, status_text
from hpcforge.run.records.history import History, NodePast, Past
from hpcforge.run.records.lease import LeaseHolder
from hpcforge.run.status import NodeStatus, Status
from hpcforge.verify.verdict_records import KeptVerdicts, Recorded
from hpcforge.verify.verdicts import Verdict

Golden = Callable[[Path, str], None]
GOLDEN = Path(__file__).parent / "golden"
NOW = 1_800_000_000.0
FIRST = Past("aa", "ada@near", 1, NOW - 4 * 86400, 312.4, exit=0, commit="c" * 40, nodes={"w2": NodePast(changed=9)})
DIED = Past("bb", "bob@far", None, NOW - 86400, cut_off=True)
LAST = Past(
    "cc",
    "ada@near",
    12,
    NOW - 7200,
    12.5,
    exit=4,
    commit="d" * 40,
    dirty=True,
    verdicts={"allreduce": "passed", "train_ddp": "timed_out"},
    nodes={
        "head": NodePast(3),
        "w1": NodePast(2, failed={"base": "no"}),
        "w2": NodePast(unreachable="no route"),
        "w3": NodePast(0),
    },
    left=("w9",),
)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert os.environ["TZ"] == "UTC"


def status(**more: object) -> Status:
    found = {
        "cluster": "small",
        "head": "head",
        "nodes": (
            NodeStatus("head", None, None, LAST, 12),
            NodeStatus("w1", None, "idle", LAST, 12),
            NodeStatus("w2", "no route to w2 (10.0.0.3)", "down*: Not\x1b[2J responding", FIRST, None),
            NodeStatus("w3", None, "idle", LAST, 12, ("its record is unusable: damaged",)),
            NodeStatus("w4", None, "idle", LAST, 12),
        ),
        "leaving": {"w9": Enrolled("10.0.0.9", (), "w[1-9]", ("worker",), 1)},
        "away": None,
        "at_work": None,
        "history": History((FIRST, DIED, LAST), older=2, unreadable=1),
        "verdicts": Recorded(
            (
                KeptVerdicts(Verdict("allreduce", "passed", ("w1",)), NOW - 7100.0, ("w1",)),
                KeptVerdicts(Verdict("train_ddp", "timed_out", ("w1",)), NOW - 7100.0, ()),
            )
        ),
        "notes": ("1 line of the history cannot be read",),
    }
    return Status(**{**found, **more})  # type: ignore[arg-type]


def test_status(golden: Golden) -> None:
    golden(GOLDEN / "status.txt", status_text(status(), NOW))


def test_somebody_at_work() -> None:
    holder = LeaseHolder("x", "bob@far", 13, None, 754.0, 3.0)
    first = status_text(status(at_work=holder), NOW).splitlines()[0]
    assert first.startswith("running:   bob@far has been at work on this cluster since ")
    assert first.endswith("(13 min), run 13")


def test_a_head_that_is_away_and_a_cluster_without_a_past() -> None:
    lines = status_text(status(away="no route", history=History(), verdicts=Recorded(), leaving={}), NOW).splitlines()
    assert lines[:4] == [
        "running:   unknown: head does not answer",
        "last run:  none in the history",
        "verdicts:  none",
        "",
    ]


def test_history(golden: Golden) -> None:
    golden(GOLDEN / "history.txt", history_table(History((FIRST, DIED, LAST), older=2, unreadable=1)))
    assert history_table(History((DIED, LAST)).newest(1)).startswith("(1 older run not shown")


def test_json_is_plain() -> None:
    document = json.loads(json.dumps(status_json(status(), History((LAST,)))))
    assert document["schema_version"] == 2
    assert document["nodes"]["w1"]["changed_by_run"] == 12
    assert document["nodes"]["w2"]["unreachable"] == "no route to w2 (10.0.0.3)"
    assert document["last_run"]["exit"] == 4
    assert document["leaving"]["w9"]["address"] == "10.0.0.9"
    assert [run["number"] for run in document["history"]["runs"]] == [12]
    assert "history" not in status_json(status(), None)
