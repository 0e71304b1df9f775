"""Texts of a hostile node beside the wanted ones: a plan is printed in seconds."""

from __future__ import annotations

import random
import time

import pytest

from hpcforge.report.plan_text import file_diff

BRACES = ["}", "a"]
LATE_S = 20.0


def texts(name: str) -> tuple[str, str]:
    """An old text, and a wanted one."""
    chance = random.Random(7)
    return {
        "alike": ("\n".join(BRACES * 60_000), "\n".join(["}"] * 150 + ["a"] * 49)),
        "any order": ("\n".join(chance.choice(BRACES) for _ in range(60_000)), "\n".join(BRACES * 99)),
        "long": ("\n" * 4_000_000, "a"),
        "at the limit": ("\n".join(BRACES * 1_000), "\n".join(BRACES * 99)),
    }[name]


@pytest.mark.parametrize("name", ["alike", "any order", "long", "at the limit"])
def test_no_text_of_a_node_holds_a_plan_up(name: str) -> None:
    began_s = time.process_time()
    lines = 0
    for _ in file_diff(*texts(name)):
        lines += 1
        assert time.process_time() - began_s < LATE_S
    assert lines < 10_000


def test_what_is_too_much_is_said() -> None:
    [line] = file_diff(*texts("alike"))
    assert line == "(120000 lines on the node, 199 wanted: too long, or too many alike, to be compared)"


def test_a_large_file_of_a_cluster_is_compared() -> None:
    hosts = [f"10.{number >> 8}.{number & 255}.1 w{number}" for number in range(7_000)]
    old = "\n".join([*hosts, *["}", ""] * 2_000])
    assert [*file_diff(old, old.replace("w3\n", "w5\n"))] == [
        *("--- on the node", "+++ wanted", "@@ -2,5 +2,5 @@", " 10.0.1.1 w1", " 10.0.2.1 w2"),
        *("-10.0.3.1 w3", "+10.0.3.1 w5", " 10.0.4.1 w4", " 10.0.5.1 w5"),
    ]
