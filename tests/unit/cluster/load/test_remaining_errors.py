"""Errors of design beside a file's other errors: all in one run, and none that follows from another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cluster import load
from tests.unit.design.facility.designs import altered, shipped

Changes = Sequence[tuple[str, str]]
HOT = ("inlet_c: 22", "inlet_c: 50")
SMALL = ("pdu-400v-63a, outlets", "pdu-400v-63a, amps: 1, outlets")  # PDUs
NARROW = ("limit_w: 15000", "limit_w: 3000")  # of rack s1


def messages(folder: Path, *changes: tuple[str, str]) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load(altered(folder, shipped("air-cooled-16"), *changes), judged=True)
    return [entry.message for entry in caught.value.diagnostics if entry.severity == "error"]


@pytest.mark.parametrize(
    "mistake",
    [
        ("uid: 1901", "uid: 190"),
        ("memory_gib: 64}", "memory_gb: 64}"),
        ("controller: head01", "controller: head02"),
        ("functions: [login]", "functions: [logn]"),  # the entry is left out, and the others are judged
        ("hardware: nas-2u", "hardware: nas-3u"),
        ('main: {nodes: "g[01-16]"', 'main: {nodes: "g[01-17]"'),
        ("debian", "debain"),
        ("limit_w: 15000", "limit_w: much"),  # of a rack, and its sums are the others' no more
        ("B: {volts: 400, phases: 3", "B: {volts: 400, phases: 2"),
        ("derating: 0.8", "derating: much"),
        ("weight_kg: 12}", "weight: 12}"),
        ("pdu: pdu-63a, feeds: [A, B], limit_w: 30000", "pdu: pdu-64a, feeds: [A, B], limit_w: 30000"),
    ],
)
def test_a_mistake_elsewhere_does_not_hide_what_racks_cannot_carry(tmp_path: Path, mistake: tuple[str, str]) -> None:
    alone = set(messages(tmp_path, mistake))
    both = set(messages(tmp_path, mistake, HOT))
    assert alone < both
    assert [entry.partition(":")[0] for entry in both - alone] == ["COOL-002"]


@pytest.mark.parametrize(
    ("mistake", "other"),
    [
        (("derating: 0.8", "derating: much"), NARROW),
        (("inlet_c: 22", "inlet_c: cold"), ("rack_airflow_m3_h: 6500", "rack_airflow_m3_h: 10")),
        (("weight_kg: 12}", "weight: 12}"), SMALL),  # its PDUs may weigh, and carry, something else
    ],
)
def test_what_depends_on_a_mistake_is_not_judged(
    tmp_path: Path, mistake: tuple[str, str], other: tuple[str, str]
) -> None:
    assert messages(tmp_path, mistake, other) == messages(tmp_path, mistake)


@pytest.mark.parametrize("mistake", [("nodes:\n", "node:\n"), ("  head01: ", "  head01 ")])
def test_a_file_of_which_too_little_is_valid_has_its_own_errors_alone(tmp_path: Path, mistake: tuple[str, str]) -> None:
    assert not any("-0" in message for message in messages(tmp_path, mistake, HOT))
