"""Partitions of slurm.conf and their time limits."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from hpcforge.blueprint import values as v
from hpcforge.starter.machines import SiteMachine
from hpcforge.starter.readers.slurm.partitions import max_time, partitions
from hpcforge.starter.readers.slurm_settings import Settings
from hpcforge.starter.readers.slurm_words import Ledger, statements


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("30", "0-00:30:00"),
        ("43200", "30-00:00:00"),
        ("90:30", "0-01:31:00"),  # minutes:seconds, rounded up as Slurm does
        ("48:00:00", "2-00:00:00"),
        ("7-0", "7-00:00:00"),
        ("7-12:30", "7-12:30:00"),
        ("7-0:00:99", "7-00:02:00"),
        ("INFINITE", "infinite"),
        ("unlimited", "infinite"),
        ("-1", "infinite"),
        ("0", None),
        ("soon", None),
        ("9999999", "6944-10:39:00"),
        ("99999-0", None),
    ],
)
def test_time_limits_are_those_of_a_blueprint(text: str, limit: str | None) -> None:
    assert max_time(text) == limit
    if limit:
        TypeAdapter(v.MaxTime).validate_python(limit)


def test_a_partition_that_nodes_name_becomes_the_default() -> None:
    ledger = Ledger()
    workers = [SiteMachine("n1"), SiteMachine("n2")]
    shown = {"a": ["n1"], "b": ["n1", "n2"]}
    settings = Settings.of_usual_system(shown=True)
    first, second = partitions([], workers, shown, ledger, settings)
    assert (first.name, first.default, first.max_time, second.nodes, second.default) == (
        "a",
        True,
        None,
        ("n1", "n2"),
        False,
    )
    lines = statements("PartitionName=b Nodes=n2 Default=YES MaxTime=5\n", None, ledger)
    assert [(each.name, each.default) for each in partitions(lines, workers, shown, ledger, settings)] == [
        ("b", True),
        ("a", False),
    ]
