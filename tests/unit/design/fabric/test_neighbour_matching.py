"""Which device, which port, which link: from what is told to the design's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from hpcforge import bundled
from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster import load
from hpcforge.design.fabric.as_built import compare
from hpcforge.design.fabric.cable_index import CableEnds, Drawn, PortName
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.neighbour_matching import Heard, Recognised, ReportedEnd, recognise
from hpcforge.verify import cabling
from tests.support.as_plugged import drawn, pair, rails, swapped
from tests.support.as_told import ibnetdiscover, lldp

ADAPTERS = ("mlx5_2", "mlx5_3", "mlx5_10", "mlx5_11")  # natural order, not that of the alphabet


def told(
    links: Iterable[CableEnds], adapters: Sequence[str] = ADAPTERS, port: str = "#{}"
) -> list[tuple[ReportedEnd, ReportedEnd]]:
    """Cables of ends as they are told, node first."""
    pairs = []
    for link in links:
        if link.a.device.startswith("gpu"):
            adapter = adapters[int(link.a.name.rpartition(" ")[2]) - 1]
            pairs.append(
                (ReportedEnd((link.a.device,), (adapter,)), ReportedEnd((link.b.device,), (port.format(link.b.name),)))
            )
    return pairs


@pytest.mark.parametrize("odd", ["9" * 5000, f"swp{'9' * 5000}s{'9' * 5000}", f"Ethernet{'9' * 5000}", "²", "mlx5_²"])
def test_odd_names_of_ports_are_nobodys(odd: str) -> None:
    fabric = rails()
    pairs = told(at_nodes(drawn(fabric)))
    (one, other), *others = pairs
    found = heard(fabric, [*others, (ReportedEnd(one.device, (odd,)), ReportedEnd(other.device, (odd,)))])
    elsewhere = {link for link in at_nodes(drawn(fabric)) if link.a.device != one.device[0]}
    assert elsewhere <= set(found.seen.links)


def heard(
    fabric: Fabric,
    pairs: Sequence[tuple[ReportedEnd, ReportedEnd]],
    said: Mapping[str, str] | None = None,
    given: Sequence[str] = (),
) -> Recognised:
    asked = frozenset(pair[0].device[0] for pair in pairs)
    lldp = [fabric.name] if fabric.kind != "infiniband" else []
    return recognise(
        [fabric],
        Heard(tuple(pairs), asked, frozenset() if lldp else frozenset({fabric.name})),
        said or {},
        {},
        {fabric.name: given} if given else {},
        lldp,
    )


def at_nodes(design: Drawn) -> list[CableEnds]:
    return [link for link in design.links if link.a.device.startswith("gpu")]


def alike(fabric: Fabric, pairs: Sequence[tuple[ReportedEnd, ReportedEnd]], given: Sequence[str] = ()) -> Recognised:
    """All nodes are of one hardware."""
    nodes = {device.name: "dgx" for device in fabric.devices if device.kind == "node"}
    order = {fabric.name: given} if given else {}
    return recognise([fabric], Heard(tuple(pairs), frozenset(nodes), frozenset({fabric.name})), {}, nodes, order, [])


def test_natural_order() -> None:
    fabric = rails()
    design = drawn(fabric)
    found = alike(fabric, told(design.links))
    assert list(found.seen.links) == at_nodes(design)
    assert found.doubts == ()


def test_one_node_that_differs_is_a_fault_not_an_order() -> None:
    fabric = rails()
    design = drawn(fabric)
    links = swapped(design.links, PortName("gpu002", "compute rail 1"), PortName("gpu002", "compute rail 3"))
    found = alike(fabric, told(links))
    assert set(found.seen.links) == {link for link in links if link.a.device.startswith("gpu")}


def crossed(
    design: Drawn, nodes: Iterable[str], first: str = "inband link 1", second: str = "inband link 2"
) -> list[CableEnds]:
    """Two cables of each of these nodes in each other's interface."""
    links = design.links
    for node in nodes:
        links = swapped(links, PortName(node, first), PortName(node, second))
    return links


@pytest.mark.parametrize(
    ("nodes", "others", "unread_switches"),
    [
        (13, range(1, 8), False),  # the larger part
        (13, range(1, 14), False),  # all
        (13, range(1, 14), True),
        (13, range(4, 7), False),  # a smaller part
        (3, (1, 2), False),
        (1, (1,), False),  # no other node to compare with
    ],
)
def test_another_order_on_which_nodes_agree_is_unknown(
    nodes: int, others: Iterable[int], unread_switches: bool
) -> None:
    """Crossed cables, or interfaces in that order: nobody is accused, and the lines that settle it are there."""
    fabric = pair(nodes=nodes, switch_ports=32)
    design = drawn(fabric)
    names = [f"gpu{number:03}" for number in others]
    port = "strange{}x" if unread_switches else "swp{}"
    pairs = told(crossed(design, names), ("ens1f0np0", "ens1f1np1"), port)
    found = wired(fabric, pairs)
    report = compare(design, found.seen)
    assert {finding.kind for finding in report.findings} == {"unknown"}
    assert report.as_drawn == (0 if unread_switches else 2 * (nodes - len(names)))
    message = next(finding.message for finding in report.findings if finding.message.startswith("gpu"))
    assert message.startswith(fold(names))
    assert "`interfaces: [ens1f0np0, ens1f1np1]` of inband" in message
    assert "another order: `interfaces: [ens1f1np1, ens1f0np0]`" in message
    if unread_switches:
        return
    natural = compare(design, wired(fabric, pairs, ("ens1f0np0", "ens1f1np1")).seen)
    # all of them: the two leaves may just as well be exchanged
    assert [each.kind for each in natural.findings] == (["exchanged"] if len(names) == 13 else ["swapped"] * len(names))
    stated = compare(design, wired(fabric, pairs, ("ens1f1np1", "ens1f0np0")).seen)
    assert stated.as_drawn == 2 * len(names) and len(stated.findings) == nodes - len(names)


def wired(fabric: Fabric, pairs: Sequence[tuple[ReportedEnd, ReportedEnd]], given: Sequence[str] = ()) -> Recognised:
    """What all nodes of an Ethernet fabric, of one hardware, report by LLDP."""
    nodes = {device.name: "server" for device in fabric.devices if device.kind == "node"}
    asked = Heard(tuple(pairs), frozenset(nodes))
    return recognise([fabric], asked, {}, nodes, {fabric.name: given} if given else {}, [fabric.name])


def test_rails_crossed_on_all_nodes_are_unknown_and_the_others_as_drawn() -> None:
    fabric = rails()
    design = drawn(fabric)
    nodes = [device.name for device in fabric.devices if device.kind == "node"]
    found = alike(fabric, told(crossed(design, nodes, "compute rail 2", "compute rail 3")))
    report = compare(design, found.seen)
    [finding] = [each for each in report.findings if each.kind == "unknown"]
    assert report.as_drawn == 2 * len(nodes) and len(finding.moves) == 2 * len(nodes)
    assert "another order: `interfaces: [mlx5_2, mlx5_10, mlx5_3, mlx5_11]`" in finding.message


def test_two_of_many_nodes_do_not_make_an_order() -> None:
    fabric = pair(nodes=12, switch_ports=32)
    design = drawn(fabric)
    found = wired(fabric, told(crossed(design, ["gpu004", "gpu009"]), ("eno1", "eno2"), "swp{}"))
    assert [each.kind for each in compare(design, found.seen).findings] == ["swapped", "swapped"]


def test_stated_interfaces_are_those_of_the_hardware_that_has_them() -> None:
    fabric = pair(nodes=6)
    design = drawn(fabric)
    links = at_nodes(design)
    pairs = told(links[:6], ("eno2", "eno1"), "swp{}") + told(links[6:], ("ens1f0", "ens1f1"), "swp{}")
    hardware = {f"gpu{number:03}": "old" if number < 4 else "new" for number in range(1, 7)}
    asked = Heard(tuple(pairs), frozenset(hardware))
    found = recognise([fabric], asked, {}, hardware, {"inband": ("eno2", "eno1")}, ["inband"])
    assert found.seen.links == tuple(links)


def test_the_blueprint_settles_it() -> None:
    fabric = rails(nodes=2)
    design = drawn(fabric)
    found = alike(fabric, told(design.links, ADAPTERS[::-1]), ADAPTERS[::-1])
    assert list(found.seen.links) == at_nodes(design)


def test_an_adapter_that_is_seen_nowhere() -> None:
    """One rail of a lone node is dead: the others are told by the leaves that they lead to."""
    fabric = rails(nodes=1, designed_for=12)  # else its rails share a leaf
    design = drawn(fabric)
    links = [link for link in design.links if link.a.name != "compute rail 2"]
    found = alike(fabric, told(links))
    assert list(found.seen.links) == at_nodes(drawn(fabric))[:1] + at_nodes(drawn(fabric))[2:]


def test_too_few_to_tell() -> None:
    """One of two links to the same leaf: nobody can say which it is, and that is said."""
    fabric = rails(nodes=4, rails=1)
    pairs = [(ReportedEnd(("gpu001",), ("ib7",)), ReportedEnd(("unheard",), ("#1",)))]
    found = alike(fabric, pairs)
    assert found.seen.links == (CableEnds(PortName("gpu001", "ib7"), PortName("unheard", "1")),)


def test_a_switch_with_a_name_of_its_own_is_known_by_its_cables() -> None:
    """Its every cable is where one switch's belong of which nothing else is heard; unmanaged ones share one name."""
    fabric = rails()
    design = drawn(fabric)

    def end(port: PortName) -> ReportedEnd:
        if port.device in ("compute-spine-001", "compute-leaf-003"):
            return ReportedEnd(("Quantum Mellanox Technologies", f"0x{port.device[-3:]}"), (f"#{port.name}",))
        rail = port.name.rpartition(" ")[2]
        return ReportedEnd((port.device,), (f"mlx5_{rail}" if "rail" in port.name else f"#{port.name}",))

    found = alike(fabric, [(end(link.a), end(link.b)) for link in design.links])
    assert list(found.seen.links) == design.links
    assert sorted(found.doubts) == [
        "Quantum Mellanox Technologies (0x001) has the cables of compute-spine-001 and counts as compute-spine-001: "
        "write its name into the inventory",
        "Quantum Mellanox Technologies (0x003) has the cables of compute-leaf-003 and counts as compute-leaf-003: "
        "write its name into the inventory",
    ]


@pytest.mark.parametrize(
    ("names", "which"),
    [
        ({"inband-leaf-001": "sw-a", "inband-leaf-002": "sw-b"}, "sw-a, sw-b: which of inband-leaf-[001-002] is it"),
        ({"inband-leaf-002": "sw-b", "mgmt": "mgmt"}, "mgmt, sw-b: which of inband-leaf-002 is it"),
    ],
)
def test_switches_that_may_be_several_are_unknown(names: Mapping[str, str], which: str) -> None:
    """Two leaves of a pair under names of their own, or a management switch beside one: the inventory says which."""
    fabric = pair(nodes=6)
    design = drawn(fabric)
    links = at_nodes(design)
    if "mgmt" in names:
        links += [CableEnds(PortName(f"gpu{n:03}", "inband link 3"), PortName("mgmt", str(n))) for n in range(1, 7)]
    pairs = [
        (end, ReportedEnd((names.get(other.device[0], other.device[0]), f"id {other.device[0]}"), other.port))
        for end, other in told(links, ("eno1", "eno2", "eno3"), "swp{}")
    ]
    found = wired(fabric, pairs)
    report = compare(design, found.seen)
    [finding] = report.findings
    assert finding.kind == "unknown" and finding.message.startswith(which), finding.message
    assert "system_name: " in finding.message and found.doubts == ()
    assert report.as_drawn == (6 if "mgmt" in names else 0)


def test_a_stranger_with_a_cable_of_someone_else_stays_one() -> None:
    fabric = rails()
    design = drawn(fabric)
    name = {"compute-spine-001": "sw1"}
    links = swapped(design.links, PortName("compute-spine-001", "1"), PortName("compute-spine-002", "1"))
    pairs = [
        (
            ReportedEnd((link.a.device,), (f"#{link.a.name}",)),
            ReportedEnd((name.get(link.b.device, link.b.device),), (f"#{link.b.name}",)),
        )
        for link in links
        if link.a.device.startswith("compute")
    ]
    assert {link.b.device for link in alike(fabric, pairs).seen.links} >= {"sw1"}


def test_domains_and_capitals_do_not_count() -> None:
    fabric = pair()
    pairs = [
        (ReportedEnd(("GPU001.hpc.example.org",), ("eno1",)), ReportedEnd(("Inband-Leaf-001.example.org",), ("swp1",))),
        (ReportedEnd(("gpu002",), ("eno1",)), ReportedEnd(("inband-leaf-001(FDO2013)",), ("swp2",))),
    ]
    assert [link.b for link in heard(fabric, pairs).seen.links] == [
        PortName("inband-leaf-001", "1"),
        PortName("inband-leaf-001", "2"),
    ]
    assert heard(fabric, pairs).seen.links[0].a.device == "gpu001"


@pytest.mark.parametrize("told_as", ["0xb83fd203004a1c80", "sw-r1-u40", "02:00:00:00:00:01"])
def test_the_inventory_says_who_is_who(told_as: str) -> None:
    pairs = [(ReportedEnd(("gpu001",), ("eno1",)), ReportedEnd(("Quantum", told_as), ("3",)))]
    found = heard(pair(), pairs, {told_as: "inband-leaf-002"})
    assert found.seen.links[0].b == PortName("inband-leaf-002", "3")


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("swp7", "7"),
        ("Eth1/7", "7"),
        ("Ethernet7/1", "7"),
        ("1/7", "7"),
        ("7", "7"),
        ("#7", "7"),
        ("etp7", "7"),
        ("Ethernet12", "?"),  # port 12, or 13 counted from 0, or lane 12 of port 4
        ("mgmt0", "management mgmt0"),
        ("swp99", "?"),
    ],
)
def test_ports(text: str, port: str) -> None:
    found = heard(pair(), [(ReportedEnd(("gpu001",), ("eno1",)), ReportedEnd(("inband-leaf-001",), (text,)))])
    assert found.seen.links[0].b == PortName("inband-leaf-001", port)
    assert bool(found.seen.unknown) == (port == "?")


@pytest.mark.parametrize(
    ("text", "port"), [("swp3s0", "3/1"), ("Eth1/3/2", "3/2"), ("Ethernet3/2", "3/2"), ("#6", "3/2")]
)
def test_lanes(text: str, port: str) -> None:
    fabric = rails(nodes=8, breakout=2, uplink_rate_gbps=800.0)
    found = heard(fabric, [(ReportedEnd(("gpu001",), ("mlx5_0",)), ReportedEnd(("compute-leaf-001",), (text,)))])
    assert found.seen.links[0].b == PortName("compute-leaf-001", port)


@pytest.mark.parametrize(
    ("text", "breakout", "port"),
    [
        ("#6 of 17", 1, "6"),
        ("#7 of 33", 1, "4"),  # its ports are split, and drawn whole
        ("#8 of 33", 1, "?"),
        ("#6 of 33", 2, "3/2"),
        ("#6 of 17", 2, "?"),  # its ports are drawn split, and are not
        ("#99", 1, "?"),
    ],
)
def test_ports_as_infiniband_counts_them(text: str, breakout: int, port: str) -> None:
    fabric = rails(nodes=8, breakout=breakout, **({"uplink_rate_gbps": 800.0} if breakout > 1 else {}))
    found = heard(fabric, [(ReportedEnd(("gpu001",), ("mlx5_0",)), ReportedEnd(("compute-leaf-001",), (text,)))])
    assert found.seen.links[0].b == PortName("compute-leaf-001", port)
    assert found.seen.unknown.get("compute-leaf-001", "") == ("" if port != "?" else f"not among its ports: {text}")


def test_a_node_whose_neighbour_names_no_port_is_unknown() -> None:
    """A switch's own report of an adapter that sends its MAC address only."""
    pairs = [(ReportedEnd(("inband-leaf-001",), ("", "", "swp1")), ReportedEnd(("gpu001",), ("",)))]
    found = heard(pair(), pairs)
    assert found.seen.links == (CableEnds(PortName("inband-leaf-001", "1"), PortName("gpu001", "?")),)
    assert found.seen.unknown == {"gpu001": "its neighbour reports no name of a port"}


def test_whose_cables_are_looked_at() -> None:
    """A node that was asked by LLDP says nothing of InfiniBand; a switch says all of its own fabric."""
    wired, compute = pair(), rails(nodes=4)
    pairs = told(drawn(wired).links, ("eno1", "eno2"), "swp{}")
    asked = frozenset({"gpu001", "inband-leaf-002", "campus"})
    found = recognise([wired, compute], Heard(tuple(pairs), asked), {}, {}, {}, ["inband"])
    assert found.seen.looked_at == {("inband", "gpu001"), ("inband", "inband-leaf-002")}


@pytest.mark.parametrize("name", ["dgx-h100-pod", "dgx-h100-site", "roce-pair-16"])
def test_shipped_blueprints_as_drawn(name: str) -> None:
    """Written by all programs there are, read, and nothing is wrong; BMCs' cables are not missed."""
    loaded = load(bundled.root() / "blueprints" / f"{name}.yaml")
    design = Drawn.of(cables.labels for cables in loaded.cables)
    lldp_files: dict[str, str] = {}
    discovered = {}
    for fabric, cables, of in zip(loaded.fabrics, loaded.cables, loaded.cluster.fabrics, strict=True):
        links = Drawn.of([cables.labels]).links
        if of.kind == "infiniband":
            discovered[fabric.name] = ibnetdiscover(fabric, links)
        elif of.lldp:
            lldp_files |= lldp(link for link in links if fabric.devices[fabric.index[link.a.device]].kind == "node")
    found = recognise(
        loaded.fabrics,
        cabling.heard(lldp_files, discovered, lldp_files),
        {},
        {node.name: node.hardware for node in loaded.cluster.nodes},
        {},
        [fabric.name for fabric in loaded.cluster.fabrics if fabric.lldp],
    )
    report = compare(design, found.seen)
    assert (report.findings, found.doubts) == ((), ())
    unseen = [link for link in design.links if "oob" in str(design.fabric(link)) or link.a.device.startswith("ether-")]
    peers = [link for link in design.links if "inband-leaf" in link.a.device]
    assert report.unchecked == len(unseen) + len(peers)
    assert report.as_drawn == len(design.links) - report.unchecked > 30
