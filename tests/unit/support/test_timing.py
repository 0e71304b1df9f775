"""The budget of the tests is itself tested: a part over its share by half is named, and the documents say the same."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.timing import Part, Spent, complaints, minutes, part_of, read_parts

REPOSITORY = Path(__file__).parents[3]
PARTS = (Part("slow", 2, ("tests/slow/*",)), Part("core", 4, ("*",)))


def test_a_test_belongs_to_the_first_part_that_it_fits() -> None:
    assert part_of("tests/slow/test_one.py::test_a", PARTS) == "slow"
    assert part_of("tests/quick/test_two.py::test_b[x]", PARTS) == "core"


def test_what_runs_side_by_side_shares_the_time_that_passed() -> None:
    spent = [Spent("tests/slow/test_one.py::test_a", 90, 0.1), Spent("tests/test_two.py::test_b", 30, 1.0)]
    assert minutes(spent, PARTS, elapsed_s=60) == {"slow": 0.75, "core": 0.25}
    assert minutes([], PARTS, elapsed_s=60) == {"slow": 0, "core": 0}


def test_over_its_share_by_half_a_part_is_named() -> None:
    assert complaints({"slow": 2.9, "core": 5.9}, 6, PARTS) == []
    [line] = complaints({"slow": 3.0, "core": 5.9}, 6, PARTS)
    assert line.startswith("slow: 3.0 min, over 2 min by half or more")
    [line] = complaints({"slow": 2.9, "core": 5.9}, 5, PARTS)
    assert line.startswith("all tests: 8.8 min")


def test_every_part_has_tests_and_stands_in_the_documents() -> None:
    all_min, parts = read_parts()
    ids = [str(path.relative_to(REPOSITORY)) + "::test[13]" for path in (REPOSITORY / "tests").rglob("test_*.py")]
    assert {part_of(one, parts) for one in ids} == {part.name for part in parts}
    table = re.findall(r"^  \| ([^|]+) \| ([0-9]+) \|$", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert {name: int(number) for name, number in table} == {
        "all tests": all_min,
        **{part.name: part.share_min for part in parts},
    }
