"""`hpcforge explain TEST`: what a number will be compared with, and how that came about."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hpcforge.cluster.model import Measure, SmokeTest, SmokeTestProgram, Threshold
from hpcforge.report.show_text import lines_json, lines_text
from hpcforge.verify.lines import DerivedValue
from tests.support.in_process import hpcforge

BLUEPRINTS = Path("blueprints")
RATE, SIZE = Measure("rate", "GB/s", "higher"), Measure("size", "B", None, "size")
PROGRAM = SmokeTestProgram(
    description="Rates.",
    measures=(RATE, SIZE),
    lines=(
        Threshold("rate", "at_least", 2),
        Threshold("rate", "at_least_of_median", 0.9),
        Threshold("rate", "at_least_of_baseline", 0.95),
        Threshold("rate", "at_least_of_derived", 0.5),
    ),
)
TEST = SmokeTest("rates", ("w1", "w2"), 60, PROGRAM)
TEXT = """\
rates on 2 nodes, w[1-2]: Rates.
  rate, GB/s, higher is better
    at least 2, test.yaml: refuses
    at least 4, 0.5 of the derived bandwidth: refuses
    at most 10, the derived bound: shown only
    at least 0.9 of the median of its nodes: refuses
    at least 0.95 of the baseline, if there is one and its software is the same: refuses
      2 x 5 = 10
      of which 80 % is 8
"""


def test_each_line_has_its_source_and_its_derivation() -> None:
    found = [(TEST, {"rate": DerivedValue(10, 8, "2 x 5 = 10\nof which 80 % is 8")})]
    assert lines_text(found) == TEXT
    (told,) = lines_json(found)["tests"]
    assert [line["limit"] for line in told["lines"]] == [2, 4, 10, None, None]
    assert told["derivations"] == {"rate": "2 x 5 = 10\nof which 80 % is 8"}


def test_a_number_without_a_line_says_so() -> None:
    without = replace(PROGRAM, lines=())
    text = lines_text([(replace(TEST, program=without), {})])
    assert text.endswith("    at least the usual rate, once 5 runs on all its nodes have passed: refuses\n")
    times = replace(without, measures=tuple(replace(measure, better="lower") for measure in without.measures))
    text = lines_text([(replace(TEST, program=times), {})])
    assert text.endswith("    no line: the number is shown, and kept for baselines\n")


def test_the_catalog_and_the_fabric_of_a_site_give_the_line() -> None:
    site = str(BLUEPRINTS / "roce-pair-16.yaml")
    ran = hpcforge("explain", "allreduce", site)
    assert "at least 23.9, the derived bandwidth: shown only" in ran.stdout
    assert "limited by PCIe: 23.94 GB/s" in ran.stdout
    (told,) = json.loads(hpcforge("explain", "allreduce", site, "--json").stdout)["tests"]
    assert [(line["bound"], line["limit"] and round(line["limit"], 2)) for line in told["lines"]] == [
        ("at_least", None),  # the usual rate
        ("at_least", 23.94),
        ("at_most", 31.5),
    ]


def test_a_test_that_a_blueprint_does_not_have_is_named_with_those_it_has() -> None:
    ran = hpcforge("explain", "hpl", str(BLUEPRINTS / "rehearsal.yaml"))
    assert ran.returncode == 3
    assert "the blueprint has no test 'hpl'" in ran.stderr
    assert "tests: allreduce, train_ddp" in ran.stderr
    assert "a smoke test; add the blueprint that has it" in hpcforge("explain", "allreduce").stderr
