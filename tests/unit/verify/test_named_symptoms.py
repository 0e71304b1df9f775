"""Symptoms in words, through a whole verification."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.isolation.names import PartNames
from hpcforge.isolation.state import BadPart, Conclusion, Excess, FleetLine, Part
from hpcforge.isolation.wiring import NodeWiring
from hpcforge.verify.isolate import latencies, next_command, observations, reasons
from hpcforge.verify.verdicts import Verdict
from hpcforge.verify.verify import verify
from tests.unit.verify.conftest import shipped_program
from tests.unit.verify.test_isolate import Build, Measuring, Rate
from tests.unit.verify.test_process_verdict import with_test
from tests.unit.verify.test_verify import quiet

Shows = Callable[[str, str], Mapping[str, float]]
SLOW, FAST = {"round_trip_ms": 50.2, "shortest_round_trip_ms": 50.1}, {"round_trip_ms": 0.3}


class Showing(Measuring):
    """Pairs show symptoms, too."""

    def __init__(self, rate: Rate, shows: Shows) -> None:
        super().__init__(rate)
        self.shows = shows

    def _lines(self, told: dict[str, str]) -> list[str]:
        return [self._more(each) for each in super()._lines(told)]

    def _more(self, line: str) -> str:
        task, _, text = line.partition(": ")
        event = json.loads(text)
        of = event.get("of", {})
        if of.get("direction") == "in":
            event |= self.shows(of["node"], of["peer"])
        return f"{task}: {json.dumps(event)}\n"


def isolated(build: Build, rate: Rate, shows: Shows) -> Verdict:
    cluster: Cluster = with_test(build(6), shipped_program("pairs"))
    (verdict,) = verify(cluster, Showing(rate, shows), {}, quiet)
    return verdict


def test_latency_is_the_reason_of_a_low_rate(build: Build) -> None:
    verdict = isolated(
        build,
        lambda a, b: 0.1 if a != b and "w2" in (a, b) else 1.0,
        lambda a, b: SLOW if "w2" in (a, b) else FAST,
    )
    assert (verdict.status, verdict.node) == ("missed", "w2")
    assert verdict.detail.startswith(
        "the network of w2: w2: latency 50.2 ms, the others 0.3 ms (median); 0.1 GB/s, must be at least 0.9 GB/s"
    )


def test_latency_alone_names_a_node(build: Build) -> None:
    verdict = isolated(build, lambda _a, _b: 1.0, lambda a, b: SLOW if "w2" in (a, b) else FAST)
    assert (verdict.status, verdict.node) == ("missed", "w2")
    assert verdict.detail.startswith("the network of w2: w2: latency 50.2 ms, the others 0.3 ms (median); ")
    assert verdict.isolation
    (named,) = verdict.isolation.named
    assert (named.measured, named.unit, named.at_most) == (50.2, "ms", 1.5)


def test_latency_of_a_path_blames_no_node(build: Build) -> None:
    verdict = isolated(build, lambda _a, _b: 1.0, lambda a, b: SLOW if {a, b} == {"w2", "w5"} else FAST)
    assert (verdict.status, verdict.node) == ("missed", None)
    assert "the path between w2 and w5: w2 to w5: latency 50.2 ms" in verdict.detail


def test_a_low_rate_with_a_usual_latency_has_no_such_reason(build: Build) -> None:
    verdict = isolated(build, lambda a, b: 0.1 if a != b and "w2" in (a, b) else 1.0, lambda _a, _b: FAST)
    assert verdict.detail.startswith("the network of w2: 0.1 GB/s")
    assert "latency" not in verdict.detail


COUNTED = [
    ("retransmits", "sent again"),
    ("duplicates", "arrived twice"),
    ("reorders", "arrived out of order"),
]


@pytest.mark.parametrize(("kind", "words"), COUNTED)
def test_what_tcp_counted_is_a_warning_where_rates_are_good(kind: str, words: str, build: Build) -> None:
    key = f"{kind}_per_1000_segments"
    verdict = isolated(build, lambda _a, _b: 1.0, lambda a, b: {key: 45.0 if "w2" in (a, b) else 0.01})
    assert verdict.passed
    assert verdict.isolation
    text = f"w2: 45 of 1,000 TCP segments {words}, the others 0.01 (median)"
    assert verdict.isolation.observations == (text,)


@pytest.mark.parametrize(("kind", "words"), COUNTED)
def test_what_tcp_counted_is_the_reason_of_a_low_rate(kind: str, words: str, build: Build) -> None:
    key = f"{kind}_per_1000_segments"
    verdict = isolated(
        build,
        lambda a, b: 0.1 if a != b and "w2" in (a, b) else 1.0,
        lambda a, b: {key: 45.0 if "w2" in (a, b) else 0.01},
    )
    assert (verdict.status, verdict.node) == ("missed", "w2")
    assert f"w2: 45 of 1,000 TCP segments {words}, the others 0.01 (median); 0.1 GB/s" in verdict.detail
    assert verdict.isolation
    assert verdict.isolation.observations == ()


@pytest.mark.parametrize("wrong", [-1.0, 1e299, "50"])
def test_the_first_of_a_pair_is_named_for_a_symptom_that_cannot_be(build: Build, wrong: float) -> None:
    verdict = isolated(build, lambda _a, _b: 1.0, lambda a, b: {"round_trip_ms": wrong if a == "w2" and b else 0.3})
    assert (verdict.status, verdict.node) == ("failed", "w2")
    assert verdict.detail == "reported unrequested measurements: w2"


NAMES = PartNames(NodeWiring(("w1", "w2", "w3")))
LATE = Excess(Part("cable", 1), "round_trip_ms", 50.0, 0.3, 1.5, 6, (2, 3, 4))
TWICE = Excess(Part("cable", 1), "duplicates_per_1000_segments", 45.0, 0.0, 5.0, 6, (2, 3, 4))
OTHER = BadPart("unsteady", (Part("cable", 1),), 0.5, FleetLine(0.9, 1.0), 3, 1, (2, 3))


def test_each_symptom_is_told_once() -> None:
    alone, beside = Conclusion((), (LATE, TWICE)), Conclusion((OTHER,), (LATE, TWICE))
    assert [each.detail.count("w2: ") for each in latencies(alone, NAMES)] == [2]
    assert [*latencies(beside, NAMES)] == [*observations(alone, NAMES)] == [*observations(beside, NAMES)] == []
    assert len(reasons(beside, OTHER, NAMES)) == 2
    worse = replace(OTHER, verdict="bad")
    both = Conclusion((worse, OTHER), (LATE, TWICE))
    assert [len(reasons(both, finding, NAMES)) for finding in both.findings] == [2, 0]
    assert len([*observations(Conclusion((), (TWICE,)), NAMES)]) == 1


def test_the_next_command_is_of_the_node() -> None:
    assert next_command(Part("cable", 1), ("w2",)) == "ssh w2 ip -statistics link"
    assert next_command(Part("node", 1), ("w2",)) == "scontrol show node w2"
    assert next_command(Part("leaf", 1), ()) == "hpcforge verify BLUEPRINT --cabling"
