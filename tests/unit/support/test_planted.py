from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.planted import Found, Outcome, read_faults, table

FAULTS = Path(__file__).parents[2] / "stories" / "verification" / "faults.yaml"
_, PLANTED = read_faults(FAULTS)
QUOTA = PLANTED[0]
NAMED = Outcome(QUOTA, 7, (replace(QUOTA.expected, says="alone slow"),), "alone slow", 31.2)


def test_each_fault_is_removed_where_it_is_planted() -> None:
    assert len(PLANTED) >= 19
    assert all({*fault.remove} & {*fault.plant, *fault.expected.nodes} for fault in PLANTED)


@pytest.mark.parametrize(
    "outcome",
    [
        replace(NAMED, code=0),
        replace(NAMED, found=()),
        replace(NAMED, found=(*NAMED.found, Found("missed", "node", ("w04",)))),
        replace(NAMED, found=(replace(QUOTA.expected, nodes=("w04",)),)),
        replace(NAMED, found=(replace(QUOTA.expected, kind="cable"),)),
    ],
)
def test_only_the_right_part_with_its_kind_is_a_hit(outcome: Outcome) -> None:
    assert NAMED.hit
    assert not outcome.hit


def test_hits_misses_and_false_alarms_are_counted() -> None:
    healthy = Outcome(None, 0, (), "", 20.0)
    alarm = Outcome(None, 7, (Found("missed", "node", ("w01",)),), "w01 is slow", 41.0)
    lines = table([NAMED, replace(NAMED, found=(), code=0), healthy, alarm], "2026-11-26").splitlines()
    assert lines[2] == "| w03: a CPU quota of 4 % of a core | pairs missed: node w03 | 31 |"
    assert lines[3] == "| w03: a CPU quota of 4 % of a core | **miss** pairs passed | 31 |"
    assert lines[5:] == [
        "2026-11-26: 1 hits, 1 misses; 1 false alarms in 2 healthy runs, 20 to 41 s.",
        "- w01 is slow",
    ]
