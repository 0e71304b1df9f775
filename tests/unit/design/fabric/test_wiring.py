"""Ends of several rates on one switch, by the port tables and split ports of public switches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcforge.design.fabric.graph import Fabric, PortMaps
from hpcforge.design.fabric.spec import CannotBuildError, Model, OtherEnd, OwnPorts
from hpcforge.design.fabric.wiring import blocks_of, logical, own_ports, reserve
from tests.unit.design.fabric.asks import asked, blueprint, built, loaded

TOP_OF_RACK = Model("top-of-rack", 48, 8, 1, 49)
FAST = OwnPorts(100.0, 1, 49, 8)  # the uplink ports of such a switch


def files(count: int, links: int = 1, own: OwnPorts | None = FAST) -> tuple[OtherEnd, ...]:
    return tuple(OtherEnd(f"files-{number}", links, own, "files") for number in range(1, count + 1))


def rack(nodes: int, **more: Any) -> Fabric:
    settings = {"leaf": TOP_OF_RACK, "topology": "single-switch", "rate_gbps": 25.0, "uplink_rate_gbps": 100.0}
    return built(nodes, **{**settings, **more})


def plugged(fabric: Fabric) -> list[str]:
    """`files-1 link 1 - f-leaf-001 55`, for each link of other ends."""
    cables, names = fabric.cables, [device.name for device in fabric.devices]
    return [
        f"{names[c.a]} {fabric.port_label(c.a, c.a_port)} - {names[c.b]} {fabric.port_label(c.b, c.b_port)}"
        for c in cables
        if c.kind == "other_leaf"
    ]


def test_a_fast_file_server_takes_ports_of_its_rate_beside_slower_nodes() -> None:
    fabric = rack(40, endpoints=files(1, 2))
    assert plugged(fabric) == ["files-1 link 1 - f-leaf-001 55", "files-1 link 2 - f-leaf-001 56"]
    assert fabric.rates == {"node_leaf": {25.0: 40}, "other_leaf": {100.0: 2}}
    assert fabric.notes == ("ports 55 to 56 of each leaf for ends of 100 Gb/s",)


def test_in_a_leaf_pair_the_links_of_one_end_go_to_both_switches() -> None:
    fabric = rack(40, topology="leaf-pair", rails=2, endpoints=files(1, 2))
    assert plugged(fabric) == ["files-1 link 1 - f-leaf-001 56", "files-1 link 2 - f-leaf-002 56"]


def test_in_a_tree_ends_are_spread_over_leaves_and_their_rate_takes_uplinks() -> None:
    """2 leaves of 48 x 25 = 1,200 Gb/s + 2 x 100 for file servers = 1,400 Gb/s by 4 uplinks of 400: 3.5."""
    fabric = rack(80, topology="fat-tree", uplink_rate_gbps=400.0, endpoints=files(2, 2))
    assert [line.split(" - ")[1] for line in plugged(fabric)] == [
        "f-leaf-001 55",
        "f-leaf-001 56",
        "f-leaf-002 55",
        "f-leaf-002 56",
    ]
    assert fabric.cable_counts["leaf_spine"] == 2 * 4


@pytest.mark.parametrize("nodes", [1, 40, 48])
def test_more_nodes_move_no_cable_of_other_ends(nodes: int) -> None:
    assert plugged(rack(nodes, endpoints=files(3))) == plugged(rack(2, endpoints=files(3)))


def test_ports_that_other_ends_keep_are_not_left_for_nodes() -> None:
    whole = OwnPorts(400.0, 1, 1, 32)
    model = Model("spine", 32, 32)
    room = {"leaf": model, "topology": "single-switch", "breakout": 4, "endpoints": files(2, 1, whole)}
    fabric = built(30 * 4, **room)
    assert plugged(fabric) == ["files-1 link 1 - f-leaf-001 31", "files-2 link 1 - f-leaf-001 32"]
    ports = next(iter(PortMaps(fabric))).ports
    assert (len(ports), ports[0].label, ports[119].label, ports[120].label) == (30 * 4 + 2, "1/1", "30/4", "31")
    with pytest.raises(CannotBuildError, match="one switch does not take all ends"):
        built(30 * 4 + 1, **room)


def test_too_few_ports_of_a_rate_are_an_error_with_the_sum() -> None:
    with pytest.raises(CannotBuildError, match="too few ports for ends with a rate of their own") as error:
        rack(4, endpoints=files(9))
    assert error.value.arithmetic == "ends of 100 Gb/s take 9 ports of a leaf > 8"
    assert error.value.code == "FABRIC-001"


def test_split_ports_before_and_after_whole_ones() -> None:
    """Ports 1 to 4 are whole and hold nodes; 5 and 6 are split in four, 7 and 8 whole."""
    split = OwnPorts(25.0, 4, 5, 2)
    ask = asked(4, leaf=Model("small", 4, 2, 1, 7), topology="single-switch", endpoints=files(8, 1, split))
    reserved = reserve(ask, 1)
    assert list(own_ports(reserved, 4)) == [(0, port) for port in range(5, 13)]
    assert [logical(blocks_of(reserved, 4), port) for port in (4, 5, 6, 7)] == [4, 5, 9, 13]


def blueprint_of(folder: Path, fabric: str, nodes: int = 8, hardware: str = "dgx-h100") -> Fabric:
    (only,) = loaded(blueprint(folder, f"  data: {{{fabric}}}", nodes, hardware)).fabrics
    return only


# What a port is split into, in the words of makers: NVIDIA Cumulus Linux (`link breakout 4x`), SONiC's platform.json
# (1x100G[40G], 2x50G, 4x25G[10G]), Nokia SR Linux's table of breakout ports (4x100G and 2x200G of 400G), Dell OS10's
# port groups (25g-4x), and Arista's and NVIDIA's data sheets of 800G switches (2x400G, 4x200G, 8x100G).
SPLIT = [
    ("arista-7050sx3-48yc8", 25, 4, "25G: 4x25G of QSFP28", ["56/1", "56/2", "56/3", "56/4"]),
    ("dell-s5248f-on", 10, 4, "10g-4x", ["56/1", "56/2", "56/3", "56/4"]),
    ("sn2410", 50, 2, "2x50G", ["55/1", "55/2", "56/1", "56/2"]),
    ("sn4600", 50, 4, "4x50G of 200G", ["64/1", "64/2", "64/3", "64/4"]),
    ("generic-32p-400g", 100, 4, "4x100G of 400G", ["32/1", "32/2", "32/3", "32/4"]),
    ("arista-7050dx4-32s", 200, 2, "2x200G of 400G", ["31/1", "31/2", "32/1", "32/2"]),
    ("sn5600", 400, 2, "2x400G of 800G", ["63/1", "63/2", "64/1", "64/2"]),
    ("dell-z9864f-on", 200, 4, "4x200G of 800G", ["64/1", "64/2", "64/3", "64/4"]),
]


@pytest.mark.parametrize(("switch", "rate", "ends", "form", "ports"), SPLIT, ids=str)
def test_split_ports_of_public_switches(
    tmp_path: Path, switch: str, rate: int, ends: int, form: str, ports: list[str]
) -> None:
    """Four ends share ports beside nodes at 1 Gb/s less, which take whole ports."""
    fabric = blueprint_of(
        tmp_path,
        f"kind: ethernet, rate_gbps: 10, topology: single-switch, switch: {switch}, nodes: worker, "
        f"endpoints: {{old: {{count: 4, rate_gbps: {rate}, breakout: {ends}}}}}",
    )
    assert [line.rpartition(" ")[2] for line in plugged(fabric)] == ports, form


@pytest.mark.parametrize(
    ("endpoints", "line"),
    [
        ("{nas: {count: 1, rate_gbps: 400}}", "no port of sn2410 is fast enough: 400 Gb/s > 100 Gb/s of sn2410"),
        ("{nas: {count: 1, rate_gbps: 50, breakout: 4}}", "no port of sn2410 is fast enough: 200 Gb/s > 100 Gb/s"),
        ("{nas: {count: 9, rate_gbps: 100}}", "take 9 ports of a leaf > 8"),
        ("{nas: {count: 1, rate_gbps: 10, breakout: 2}}", "a port of sn2410 cannot be split so: 2 is not one of none"),
    ],
)
def test_rates_that_a_switch_does_not_have(tmp_path: Path, endpoints: str, line: str) -> None:
    fabric = f"kind: ethernet, rate_gbps: 25, topology: single-switch, switch: sn2410, endpoints: {endpoints}"
    read = loaded(blueprint(tmp_path, f"  data: {{{fabric}}}", 4))
    errors = [entry for entry in read.diagnostics if entry.severity == "error"]
    assert len(errors) == 1
    assert line in errors[0].message
    assert errors[0].line == 16
