"""From measurements to the next round, or to names; on simulated clusters."""

from __future__ import annotations

import pytest

from benchmarks.fault_kinds import KINDS, FaultKind, Plant, plant
from benchmarks.simulate_isolation import classed, isolate, mixture, simulate, simulated
from benchmarks.simulated_cluster import Fault, Routes, World, fabric_of
from hpcforge.isolation.state import Conclusion, Part, Round
from hpcforge.isolation.step import begin, step
from hpcforge.isolation.wiring import NodeWiring


def named(world: World) -> set[tuple[str, Part]]:
    return {(finding.verdict, part) for finding in isolate(world).outcome.findings for part in finding.parts}


CLEAR = (
    Plant("node", 0.0),
    Plant("node", 0.9),
    Plant("gpu", 0.6),
    Plant("cable", 0.5),
    Plant("cable", 0.6, "in"),
    Plant("uplink", 0.5),
    Plant("adapter", 0.5),
    Plant("uplinks", 0.5),
    Plant("leaf", 0.5),
    Plant("rail", 0.5),
    Plant("pair", 0.0),
)
SIZES = ((8, 8, 12), (33, 64, 3), (40, 16, 5))  # nodes, ports of a switch, runs


@pytest.mark.parametrize("fault", CLEAR, ids=str)
def test_the_bad_part_is_named_and_nothing_else(fault: Plant) -> None:
    of = fabric_of(104)
    faults = plant(of, 7, [fault])
    assert named(World(of, 7, faults, 1 / 500)) == {("bad", each.part) for each in faults}


def test_five_bad_parts_are_named() -> None:
    of = fabric_of(128)
    faults = plant(of, 3, CLEAR[2:7])
    assert named(World(of, 3, faults, 1 / 500)) == {("bad", fault.part) for fault in faults}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_kind_ends_and_names_no_healthy_part(kind: FaultKind) -> None:
    for nodes, ports, runs in SIZES:
        row = simulate(fabric_of(nodes, 4, ports), kind, range(500, 500 + runs), 1 / 500)
        assert row is None or not row.count["wrong"], (nodes, row)


def test_three_faults_of_any_kind_end() -> None:
    of = fabric_of(8, 2, 8)
    for seed in range(100):
        kind = mixture(seed)
        assert isolate(World(of, seed, plant(of, seed, kind.plants), 1 / 500, kind.routes), kind.plan).rounds <= 16


HIDDEN = {  # three faults of which a healthy part took the blame: nodes, plan, routes, faults
    "two paths and a cable": (
        (3, False, "by place"),
        [Fault(Part("pair", 0, 1), 0.0), Fault(Part("pair", 1, 2), 0.5, "out"), Fault(Part("cable", 0, 7), 0.5)],
    ),
    "both ends of the third": (
        (3, True, "by place"),
        [Fault(Part("cable", 0, 6), 0.5), Fault(Part("cable", 2, 6), 0.5, "out"), Fault(Part("cable", 1, 5), 0.5)],
    ),
    "both leaves of a rail": (
        (8, True, "by place"),
        [Fault(Part("leaf", 11), 0.5), Fault(Part("cable", 5, 2), 0.5), Fault(Part("leaf", 3), 0.5)],
    ),
    "most of a rail": (
        (4, True, "hashed"),
        [
            Fault(Part("cable", 1), 0.5),
            Fault(Part("node", 0), 0.5, "in", of="network"),
            Fault(Part("cable", 2), 0.5),
        ],
    ),
    "three of the four cables of a rail": (
        (4, True, "by place"),
        [Fault(Part("cable", 1, 2), 0.5), Fault(Part("adapter", 3, 2), 0.5), Fault(Part("cable", 0, 2), 0.5)],
    ),
    "every path of a node": (
        (3, False, "by place"),
        [Fault(Part("pair", 0, 1), 0.0), Fault(Part("cable", 0, 6), 0.5), Fault(Part("pair", 1, 2), 0.0)],
    ),
    "most pairs inside of leaves": (
        (8, True, "by place"),
        [
            Fault(Part("node", 6), 0.0),
            Fault(Part("node", 4), 0.5, of="network"),
            Fault(Part("node", 1), 0.5, of="network"),
        ],
    ),
}


@pytest.mark.parametrize(("cluster", "faults"), HIDDEN.values(), ids=HIDDEN)
def test_a_healthy_part_between_bad_ones_is_not_named(cluster: tuple[int, bool, Routes], faults: list[Fault]) -> None:
    nodes, plan, routes = cluster
    of = simulated(nodes)
    for seed in range(20):
        run = isolate(World(of, seed, faults, 1 / 500, routes), plan)
        assert classed(of, run.outcome.findings, faults, plan) in ("exact", "right place")


@pytest.mark.parametrize("factor", [0.5, 0.8, 0.94])
@pytest.mark.parametrize("nodes", [2, 3, 5, 8, 32])
def test_a_slow_node_with_a_slow_network_ends(nodes: int, factor: float) -> None:
    of = fabric_of(nodes, 2)
    for seed in range(10):
        faults = [
            Fault(Part("node", seed % nodes), factor, of="both"),
            Fault(Part("cable", seed % nodes, 1), 0.6, "out"),
        ]
        run = isolate(World(of, seed, faults, 1 / 500))
        assert classed(of, run.outcome.findings, faults) != "wrong"


def test_a_leaf_of_two_is_named_where_each_node_has_one_link() -> None:
    names = tuple("abcdefgh")
    of = NodeWiring(names, 1, tuple((node // 4,) for node in range(8)), tuple((node % 4,) for node in range(8)), (4, 4))
    assert named(World(of, 1, [Fault(Part("leaf", 1), 0.5)], 0.0)) == {("bad", Part("leaf", 1))}
    some = Fault(Part("uplinks", 0), 0.5)  # all traffic across uses those of both leaves
    assert named(World(of, 1, [some], 0.0)) == {("could not tell", Part("uplinks", leaf)) for leaf in (0, 1)}


@pytest.mark.parametrize("glitches", [0.0, 1 / 500, 1 / 50])
def test_healthy_nodes_are_not_accused(glitches: float) -> None:
    of = fabric_of(64)
    for seed in range(3):
        assert named(World(of, seed, (), glitches)) == set()


def test_eight_nodes_without_a_plan() -> None:
    of = NodeWiring(tuple("abcdefgh"))
    for part, factor in ((Part("cable", 2), 0.05), (Part("pair", 1, 4), 0.0), (Part("node", 5), 0.3)):
        assert named(World(of, 5, [Fault(part, factor)], 0.0)) == {("bad", part)}
    assert isolate(World(of, 5, (), 0.0)).rounds == 2


def test_2048_nodes_are_judged_within_16_rounds() -> None:
    of = fabric_of(2048)
    world = World(of, 2, plant(of, 2, CLEAR[3:6]), 1 / 500)
    told: Round | Conclusion
    state, told = begin(of)
    rounds = 0
    while isinstance(told, Round):
        rounds += 1
        assert rounds <= 16
        state, told = step(state, told, world.measure(told))
    assert isinstance(told, Conclusion)
