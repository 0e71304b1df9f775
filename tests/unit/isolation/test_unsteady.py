"""Parts that are low more often than chance makes them."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.fault_kinds import BY_NAME, plant
from benchmarks.simulate_isolation import isolate
from benchmarks.simulated_cluster import Fault, World, fabric_of
from hpcforge.isolation.evidence import Evidence
from hpcforge.isolation.state import Counts, FleetLine, Met, Part, State
from hpcforge.isolation.unsteady import UNSTEADY, loose_uplinks, unsteady_parts
from tests.unit.isolation.test_explain import told

EIGHT = fabric_of(8, 2, 8)
LINE = FleetLine(0.9, 1.0)
PAIRS = [(a, b) for number in (2, 3) for a in range(4) for b in range(4, 8)]


def across(*low: int) -> Evidence:
    """Every pair across the two leaves of each rail, twice; which of them were low on the first rail, out."""
    met = tuple(
        Met(2 + turn // 16, a, b, (0,) if turn in low else (), (0.5,) if turn in low else (), silent=False)
        for turn, (a, b) in enumerate(PAIRS)
    )
    return Evidence(State(EIGHT, met=met, lines={"across 0": LINE, "across": LINE}, counts={"pair": Counts(600)}))


def test_a_cable_that_is_low_half_of_the_time_is_unsteady() -> None:
    of = Evidence(told(*((2 + number, 0, 1 + number % 3, number % 2 == 0) for number in range(10))))
    (found,) = unsteady_parts(of, {*of.lows})
    assert (found.parts, found.values, found.agrees) == ((Part("cable", 0),), 20, True)
    assert found.chance < UNSTEADY


def test_values_across_that_are_low_now_and_then_are_of_the_uplinks_of_both_leaves() -> None:
    of = across(0, 5, 10, 15, 17, 20, 22, 27, 28, 30)
    (found,) = loose_uplinks(of, {*of.lows})
    assert found.parts == (Part("uplinks", 0), Part("uplinks", 2))
    assert (len(found.low), found.good, found.agrees) == (10, 54, True)
    assert found.chance < UNSTEADY


def test_values_of_a_node_alone_are_not_of_uplinks() -> None:
    of = across(0, 1, 2, 17, 18, 19)
    assert [found.agrees for found in loose_uplinks(of, {*of.lows})] == [False]


def test_where_every_leaf_is_low_as_often_none_is_a_suspect() -> None:
    of = across(0, 5, 10, 15)
    both = tuple(met._replace(low=(0, 2), values=(0.5, 0.5)) if met.low else met for met in of.state.met)
    every = Evidence(replace(of.state, met=both))
    assert all(found.chance > 0.05 for found in loose_uplinks(every, {*every.lows}))


def test_adaptive_routes_over_a_slow_uplink_are_could_not_tell_and_name_its_leaf() -> None:
    of, kind = fabric_of(8, 8, 8), BY_NAME["adaptive routes: uplink x0.5"]
    for seed in range(10):
        faults = plant(of, seed, kind.plants)
        findings = isolate(World(of, seed, faults, 1 / 500, kind.routes)).outcome.findings
        assert {found.verdict for found in findings} == {"could not tell"}
        assert Part("uplinks", faults[0].part.of) in findings[-1].parts


def test_lossy_packets_to_one_of_few_nodes_do_not_pass_as_noise() -> None:
    """Its low values are most of those that passed: by a rate without them it is measured again, until it is sure."""
    of = fabric_of(8, 1, 64)
    lossy = Fault(Part("node", 1), 0.25, "in", 0.4, of="network")
    named = 0
    for seed in range(40):
        findings = isolate(World(of, seed, (lossy,), 1 / 500), plan=False).outcome.findings
        named += any(Part("cable", 1) in found.parts and found.verdict == "unsteady" for found in findings)
    assert named > 27


def test_one_value_in_fifty_low_names_no_node_of_few() -> None:
    of = fabric_of(5, 1, 64)
    assert not [seed for seed in range(100) if isolate(World(of, seed, (), 1 / 50), plan=False).outcome.findings]
