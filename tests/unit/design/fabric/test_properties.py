"""What holds of every fabric that can be built."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.fabrics import moves
from hpcforge.design.fabric.graph import CABLE_KINDS, TO_ENDS, Cable, Fabric, oversubscription
from hpcforge.design.fabric.spec import Ask, CannotBuildError, Model, OtherEnd, OwnPorts
from tests.unit.design.fabric.asks import asked, names

TREES = ("fat-tree", "rail-optimised")
TOPOLOGIES = ("single-switch", "leaf-pair", "fat-tree", "rail-optimised", "dragonfly", "dragonfly+")
PROPERTIES = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def asks(draw: st.DrawFn, topologies: tuple[str, ...] = TOPOLOGIES) -> Ask:
    """Fabrics small enough to look at every cable of many; switches with ports of one kind or of two."""
    topology = draw(st.sampled_from(topologies))
    breakout = draw(st.sampled_from((1, 1, 2, 4)))
    ports = draw(st.integers(4, 16))
    leaf = spine = Model("switch", ports, ports, per_cage=draw(st.sampled_from((1, 2))))
    if topology not in ("dragonfly",) and draw(st.booleans()):
        up = draw(st.integers(2, 6))
        leaf = Model("top-of-rack", ports, up, 1, ports + 1)
    more: dict[str, Any] = {
        "topology": topology,
        "leaf": leaf,
        "spine": spine,
        "breakout": breakout,
        "rails": draw(st.integers(2, 4)) if topology in ("leaf-pair", "rail-optimised") else draw(st.integers(1, 2)),
        "designed_for": draw(st.integers(0, 120)),
        "leaf_oversubscription": draw(st.sampled_from((1.0, 1.5, 2.0, 3.0))),
        "spine_oversubscription": draw(st.sampled_from((1.0, 2.0))),
        "uplink_rate_gbps": draw(st.sampled_from((100.0, 400.0))),
        "endpoints": tuple(
            OtherEnd(f"other-{n}", draw(st.integers(1, 3)), draw(st.sampled_from((None, None, *own_ports(leaf)))))
            for n in range(draw(st.integers(0, 4)))
        ),
        "uplinks": draw(st.sampled_from((None, None, None, 1, 3, 4, 6))),
        "peer_links": draw(st.integers(1, 4)),
        "groups": draw(st.sampled_from((None, None, 2, 3, 5))),
    }
    return asked(draw(st.integers(1, 120)), ports, **more)


def own_ports(leaf: Model) -> tuple[OwnPorts, ...]:
    """A slower end on the ports of nodes, and a faster one where uplinks are, split and whole."""
    slow = OwnPorts(50.0, 1, leaf.first_end, leaf.end_ports)
    fast = [OwnPorts(400.0 / ends, ends, leaf.first_up, leaf.up_ports) for ends in (1, 4)]
    return (slow, *fast)


def buildable(ask: Ask) -> Fabric:
    try:
        return build(ask)
    except CannotBuildError as error:
        assert error.code == "FABRIC-001"
        assert str(error)
        assume(False)
        raise


def ends_of(cable: Cable) -> tuple[tuple[int, int], tuple[int, int]]:
    return (cable.a, cable.a_port), (cable.b, cable.b_port)


@PROPERTIES
@given(asks())
def test_every_link_of_every_end_is_plugged_in_once(ask: Ask) -> None:
    fabric = buildable(ask)
    plugged = Counter(ends_of(cable)[0] for cable in fabric.cables if cable.kind in ("node_leaf", "other_leaf"))
    wanted = [(n, link) for n, d in enumerate(fabric.devices) if d.model is None for link in range(1, d.ports + 1)]
    assert plugged == Counter(wanted)
    assert [device.name for device in fabric.devices if device.kind == "node"] == list(ask.nodes)


@PROPERTIES
@given(asks())
def test_no_port_is_used_twice_and_none_is_beyond_the_switch(ask: Ask) -> None:
    fabric = buildable(ask)
    used = Counter(end for cable in fabric.cables for end in ends_of(cable))
    assert set(used.values()) <= {1}
    physical: dict[int, set[int]] = defaultdict(set)
    lanes: dict[tuple[int, int], set[int]] = defaultdict(set)
    for device, port in used:
        if fabric.devices[device].model:
            number, lane = fabric.physical_port(device, port)
            assert 1 <= number <= fabric.devices[device].ports
            (lanes_of_port,) = {b.breakout for b in fabric.broken_out if 0 <= number - b.first < b.count} or {0}
            assert lane <= (lanes_of_port if fabric.devices[device].kind == "leaf" else 0)
            physical[device].add(number)
            lanes[device, number].add(lane)
    assert all(len(ports) <= fabric.devices[device].ports for device, ports in physical.items())
    assert not [each for each in lanes.values() if 0 in each and len(each) > 1], "a port is broken out or it is not"


@PROPERTIES
@given(asks())
def test_labels_of_ports_and_names_of_devices_are_unique(ask: Ask) -> None:
    fabric = buildable(ask)
    ports = [end for cable in fabric.cables for end in ends_of(cable)]
    assert len({(device, fabric.port_label(device, port)) for device, port in ports}) == len(ports)
    assert len(fabric.index) == len(fabric.devices)


@PROPERTIES
@given(asks())
def test_links_are_equal(ask: Ask) -> None:
    """A leaf has as many links to each spine it reaches, a spine to each core, a group of a dragonfly to each other."""
    fabric = buildable(ask)
    kinds = ("leaf_spine", "spine_core", "peer", "local")
    links = Counter((cable.kind, cable.a, cable.b) for cable in fabric.cables if cable.kind in kinds)
    for kind in kinds:
        assert len({count for (each, _, _), count in links.items() if each == kind}) <= 1
    up = Counter(cable.a for cable in fabric.cables if cable.kind == "leaf_spine")
    if up:
        leaves = {number for number, device in enumerate(fabric.devices) if device.kind == "leaf"}
        assert set(up) == leaves
        assert len(set(up.values())) == 1
    units = [device.unit for device in fabric.devices]
    joined = Counter(frozenset((units[c.a], units[c.b])) for c in fabric.cables if c.kind == "global")
    groups = {device.unit for device in fabric.devices if device.kind == "leaf"}
    if joined:
        assert len(set(joined.values())) == 1
        assert len(joined) == len(groups) * (len(groups) - 1) // 2


@PROPERTIES
@given(asks())
def test_leaves_carry_what_oversubscription_allows(ask: Ask) -> None:
    fabric = buildable(ask)
    up = Counter(cable.a for cable in fabric.cables if cable.kind == "leaf_spine")
    own = {number for number, device in enumerate(fabric.devices) if device.rate_gbps}
    ends = Counter(cable.b for cable in fabric.cables if cable.kind in TO_ENDS and cable.a not in own)
    for leaf, links in up.items():
        down_gbps = fabric.end_ports * fabric.port_rate_gbps
        down_gbps += sum(block.count * block.breakout * block.rate_gbps for block in fabric.own_blocks)
        assert ends[leaf] <= fabric.end_ports * fabric.breakout
        assert ask.uplinks in (None, links)
        assert ask.uplinks or down_gbps <= links * fabric.uplink_rate_gbps * ask.leaf_oversubscription + 1e-6
    below = Counter(cable.b for cable in fabric.cables if cable.kind == "leaf_spine")
    above = Counter(cable.a for cable in fabric.cables if cable.kind == "spine_core")
    for spine, links in above.items():
        assert below[spine] <= links * ask.spine_oversubscription + 1e-6


@PROPERTIES
@given(asks(TREES))
def test_oversubscription_counts_links_and_no_free_ports(ask: Ask) -> None:
    """Counted once more on the same fabric with every place for a node taken."""
    fabric = buildable(ask)
    full = build(replace(ask, nodes=names(ask.room)))
    up = Counter(cable.a for cable in full.cables if cable.kind == "leaf_spine")
    down_gbps: Counter[int] = Counter()
    for cable in full.cables:
        if cable.kind in TO_ENDS:
            down_gbps[cable.b] += int(full.rate_of(cable.kind, cable.a))
    ratios = [down_gbps[leaf] / (links * ask.uplink_rate_gbps) for leaf, links in up.items()]
    assert oversubscription(fabric)["leaf"] == max(ratios, default=1.0)


@PROPERTIES
@given(asks(("rail-optimised",)))
def test_a_rail_of_a_unit_is_on_one_leaf_which_few_nodes_share_among_rails(ask: Ask) -> None:
    fabric = buildable(ask)
    leaf_of: dict[tuple[int | None, int], set[int]] = defaultdict(set)
    for cable in fabric.cables:
        if cable.kind == "node_leaf":
            leaf = fabric.devices[cable.b]
            leaf_of[leaf.unit, cable.a_port].add(cable.b)
            if leaf.rail is not None:
                assert leaf.rail == cable.a_port - 1
                assert leaf.unit == cable.a // (fabric.end_ports * fabric.breakout)
            elif fabric.count("leaf") > 1:
                assert ask.uplinks is None
                assert 2 * ask.room <= fabric.end_ports * fabric.breakout, "a leaf had room for one rail only"
        if cable.kind == "leaf_spine" and fabric.tiers == 3:
            leaf_rail = fabric.devices[cable.a].rail  # None: a leaf that other ends have to themselves
            assert leaf_rail in (None, fabric.devices[cable.b].rail)
    assert all(len(leaves) == 1 for leaves in leaf_of.values())


@PROPERTIES
@given(asks())
def test_columns_are_in_order(ask: Ask) -> None:
    cables = list(buildable(ask).cables)
    order = [(CABLE_KINDS.index(cable.kind), cable.a, cable.a_port) for cable in cables]
    assert all(one < two for one, two in pairwise(order))


@PROPERTIES
@given(asks(), st.integers(1, 60))
def test_filling_up_moves_nothing(ask: Ask, more: int) -> None:
    room = ask.room + more
    fewer = buildable(replace(ask, designed_for=room))
    assert fewer.designed_for == room
    full = build(replace(ask, designed_for=room, nodes=names(room)))
    assert moves(fewer, full) == ()
    assert {device.name for device in fewer.devices} <= {device.name for device in full.devices}
    assert [d for d in fewer.devices if d.model] == [d for d in full.devices if d.model]


@PROPERTIES
@given(asks(), st.integers(1, 60))
def test_moves_turn_the_old_wiring_into_the_new(ask: Ask, more: int) -> None:
    """Cables that stay, cables that are moved and new ones make the larger fabric; each is moved once."""
    before = buildable(replace(ask, designed_for=0))
    try:
        after = build(replace(ask, designed_for=0, nodes=names(len(ask.nodes) + more)))
    except CannotBuildError:
        assume(False)
        raise
    old, new = cables_of(before), cables_of(after)
    moved = moves(before, after)
    assert {move.taken for move in moved} == old - new
    landed = [move.to for move in moved if move.to]
    assert len(set(landed)) == len(landed)
    assert set(landed) <= new - old
    for move in moved:
        if move.to:
            assert move.taken[:2] == move.to[:2] or move.taken[2:] == move.to[2:], "one end stays plugged in"


def cables_of(fabric: Fabric) -> set[tuple[str, int, str, int]]:
    names = [device.name for device in fabric.devices]
    return {(names[cable.a], cable.a_port, names[cable.b], cable.b_port) for cable in fabric.cables}
