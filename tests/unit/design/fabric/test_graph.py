"""A fabric as a graph: the printed names of ports, counts, and what is plugged in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.design.fabric.graph import PortBlock, PortMaps, Topology, columns, logical_ports, oversubscription
from hpcforge.design.fabric.spec import Model
from tests.unit.design.fabric import hand
from tests.unit.design.fabric.asks import built, names, switches
from tests.unit.design.fabric.test_build import plugged, up


def test_two_ports_of_a_cage_are_printed_with_a_slash() -> None:
    model = Model("qm9700", 64, 64, per_cage=2)
    fabric = built(64, rails=8, leaf=model, spine=model)
    assert plugged(fabric, "n00001") == [f"f-leaf-{rail:03} 1/1" for rail in range(1, 9)]
    assert plugged(fabric, "n00064")[0] == "f-leaf-009 16/2"
    assert up(fabric, "f-leaf-001")[0] == "17/1"
    assert fabric.port_label(fabric.index["n00001"], 3) == "rail 3"


def test_lanes_of_a_broken_out_port_are_printed_with_a_slash() -> None:
    """21 ports of 32, each split in two, take 42 ends; 11 uplinks at twice the rate are 2:1."""
    fabric = built(80, 32, topology="fat-tree", breakout=2, leaf_oversubscription=2.0)
    assert (fabric.end_ports, switches(fabric)) == (21, (2, 1, 0))
    assert [plugged(fabric, name)[0] for name in ("n00001", "n00002", "n00003", "n00042", "n00043")] == [
        "f-leaf-001 1/1",
        "f-leaf-001 1/2",
        "f-leaf-001 2/1",
        "f-leaf-001 21/2",
        "f-leaf-002 1/1",
    ]
    assert up(fabric, "f-leaf-001") == [str(port) for port in range(22, 33)]
    assert fabric.port_label(fabric.index["n00001"], 1) == "link 1"


def test_a_cage_of_two_ports_each_split_in_two() -> None:
    model = Model("qm9700", 64, 64, per_cage=2)
    fabric = built(100, topology="fat-tree", breakout=2, leaf=model, spine=model)
    assert [plugged(fabric, name)[0].rpartition(" ")[2] for name in names(5)] == [
        "1/1/1",
        "1/1/2",
        "1/2/1",
        "1/2/2",
        "2/1/1",
    ]


BLOCKS = (PortBlock(5, 2, 25.0, 4),)  # ports 5 and 6 of each leaf, split in four


@pytest.mark.parametrize(
    ("port", "physical"), [(1, (1, 1)), (2, (1, 2)), (8, (4, 2)), (9, (5, 1)), (12, (5, 4)), (16, (6, 4)), (17, (7, 0))]
)
def test_lanes_of_a_leaf_count_as_ports_and_others_continue_behind(port: int, physical: tuple[int, int]) -> None:
    """Ports 1 to 4 are split in two, 5 and 6 in four."""
    fabric = hand.two_rails(breakout=2, own_blocks=BLOCKS)
    leaf, spine = fabric.index["compute-leaf-001"], fabric.index["compute-spine-001"]
    assert fabric.physical_port(leaf, port) == physical
    assert fabric.physical_port(spine, port) == (port, 0)
    assert (logical_ports(fabric, fabric.devices[leaf]), logical_ports(fabric, fabric.devices[spine])) == (18, 8)


@pytest.mark.parametrize(("number", "ends"), [(1, 2), (4, 2), (5, 4), (6, 4), (7, 1)])
def test_a_port_knows_how_many_ends_share_it(number: int, ends: int) -> None:
    fabric = hand.two_rails(breakout=2, own_blocks=BLOCKS)
    assert fabric.breakout_of(fabric.index["compute-leaf-001"], number) == ends
    assert fabric.breakout_of(fabric.index["compute-spine-001"], number) == 1


def test_cables_are_counted_by_kind_and_rate() -> None:
    fabric = hand.two_rails(uplink_rate_gbps=800.0)
    slow = replace(fabric, devices=(replace(fabric.devices[0], rate_gbps=100.0), *fabric.devices[1:]))
    assert {kind: count for kind, count in fabric.cable_counts.items() if count} == {"node_leaf": 4, "leaf_spine": 4}
    assert slow.rates == {"node_leaf": {100.0: 2, 400.0: 2}, "leaf_spine": {800.0: 4}}
    assert [list(part) for part in columns(fabric, "leaf_spine")] == [[2, 2, 3, 3], [4] * 4]
    assert [list(part) for part in columns(fabric, "global")] == [[], []]


@pytest.mark.parametrize(
    ("topology", "nodes", "ports", "ratios"),
    [
        ("single-switch", 8, 16, {"leaf": 1.0}),
        ("leaf-pair", 8, 16, {"leaf": 1.0}),
        ("fat-tree", 64, 16, {"leaf": 1.0}),
        ("fat-tree", 800, 16, {"leaf": 1.0, "spine": 1.0}),
        ("dragonfly", 72, 11, {"leaf": 0.6, "global": 1.0}),  # 3 ends, 5 local links; 18 ends and 18 global links
    ],
)
def test_oversubscription_by_tier(topology: Topology, nodes: int, ports: int, ratios: dict[str, float]) -> None:
    rails = 2 if topology == "leaf-pair" else 1
    assert oversubscription(built(nodes, ports, topology=topology, rails=rails)) == pytest.approx(ratios)


def test_ports_of_a_switch_are_folded_by_what_they_lead_to() -> None:
    fabric = hand.two_rails()
    maps = PortMaps(fabric)
    assert [fabric.devices[switch.device].name for switch in maps] == [
        "compute-leaf-001", "compute-leaf-002", "compute-spine-001",
    ]  # fmt: skip
    leaf, spine = (maps.of(fabric.index[name]) for name in ("compute-leaf-002", "compute-spine-001"))
    assert (leaf.used, spine.used) == (4, 4)
    runs = [(run.first, run.last, run.use, run.names, run.more) for run in maps.runs(leaf.ports)]
    assert runs == [
        ("1", "2", "node_leaf", ("gpu001", "gpu002"), " rail 2"),
        ("3", "4", None, (), ""),
        ("5", "6", "leaf_spine", ("compute-spine-001",), ""),
        ("7", "8", None, (), ""),
    ]
    assert next(maps.runs(spine.ports)).more == ", 2 each"
    assert next(maps.runs(spine.ports[:3])).more == ", 1 to 2 each"
