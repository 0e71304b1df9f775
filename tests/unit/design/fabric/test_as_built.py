"""What was plugged in against what is drawn: every fault by its name, and nothing else."""

from __future__ import annotations

import random

import pytest

from hpcforge.design.fabric.as_built import CablingReport, Seen, compare
from hpcforge.design.fabric.cable_index import CableEnds, Drawn, PortName
from tests.support.as_plugged import check, drawn, everything, exchanged, mended, pair, rails, replug, swapped


@pytest.fixture(scope="module")
def design() -> Drawn:
    return drawn(rails(), pair(nodes=12, switch_ports=32))


def at(design: Drawn, device: str, name: str) -> PortName:
    port = PortName(device, name)
    assert port in design.peer, sorted(p.name for p in design.peer if p.device == device)
    return port


def said(report: CablingReport) -> list[tuple[str, str]]:
    return [(finding.kind, finding.message) for finding in report.findings]


def test_as_drawn_nothing_is_said(design: Drawn) -> None:
    report = check(design, design.links)
    assert report == CablingReport((), len(design.links), 0)
    turned = [CableEnds(link.b, link.a) for link in design.links]
    assert check(design, [*design.links, *turned]) == report  # told from both ends


def test_parallel_cables_are_interchangeable(design: Drawn) -> None:
    bundle, numbers = next((bundle, numbers) for bundle, numbers in design.bundles.items() if len(numbers) > 1)
    assert bundle[0].startswith("compute-leaf") and bundle[1].startswith("compute-spine")
    one, other = (design.links[number].b for number in numbers[:2])
    assert check(design, swapped(design.links, one, other)).findings == ()


def test_dead_cable(design: Drawn) -> None:
    dead = CableEnds(at(design, "gpu003", "compute rail 2"), design.peer[PortName("gpu003", "compute rail 2")])
    report = check(design, [link for link in design.links if link != dead])
    [finding] = report.findings
    assert finding.kind == "missing"
    assert finding.message == f"{dead} is not seen: not plugged in, or dead"
    [move] = finding.moves
    assert (move.action, move.cable) == ("plug in", dead)
    assert move.labels == (
        "compute-leaf-002:3 | gpu003 rail 2 > compute-leaf-002 port 3",
        "compute-leaf-002:3 | compute-leaf-002 port 3 > gpu003 rail 2",
    )


def test_swap_across_rails(design: Drawn) -> None:
    one, other = at(design, "gpu002", "compute rail 1"), at(design, "gpu002", "compute rail 3")
    report = check(design, swapped(design.links, one, other))
    [finding] = report.findings
    assert finding.kind == "swapped"
    # both plugs are at the node, so that is where they are exchanged
    assert {(move.taken, move.into) for move in finding.moves} == {(one, other), (other, one)}
    assert report.moves == 2
    assert all(move.labels and "gpu002 rail" in move.labels[0] for move in finding.moves)


def test_swap_at_the_leaf(design: Drawn) -> None:
    one, other = at(design, "compute-leaf-001", "1"), at(design, "compute-leaf-001", "2")
    [finding] = check(design, swapped(design.links, one, other)).findings
    assert finding.kind == "swapped"
    assert {move.taken for move in finding.moves} == {one, other}
    assert finding.message == (
        "the cables in compute-leaf-001 port 2 and compute-leaf-001 port 1 are swapped: gpu001 compute rail 1 belongs "
        "to compute-leaf-001 port 1, gpu002 compute rail 1 to compute-leaf-001 port 2"
    )


@pytest.mark.parametrize(("one", "other"), [("gpu001", "gpu002"), ("gpu001", "gpu009"), ("gpu003", "gpu012")])
def test_two_nodes_exchanged(design: Drawn, one: str, other: str) -> None:
    links = exchanged(design.links, one, other)
    report = check(design, links)
    [finding] = report.findings
    assert (finding.kind, finding.exchange, report.moves) == ("exchanged", (one, other), 1)
    assert finding.message.startswith(f"{one} and {other} are exchanged, with all 12 cables.")
    assert len(finding.moves) == 12  # plug by plug instead: (4 rails + 2 links) of either
    assert check(design, mended(links, report)).findings == ()


def test_exchanged_in_one_fabric_only(design: Drawn) -> None:
    """Five plugs are each in the other's place, the sixth is not: so the machines are where they should be."""
    ports = [port for port in design.peer if port.device == "gpu001" and port.name != "inband link 2"]
    links = replug(
        design.links, {p: PortName("gpu002", p.name) for p in ports} | {PortName("gpu002", p.name): p for p in ports}
    )
    report = check(design, links)
    assert [finding.kind for finding in report.findings] == ["swapped"] * 5
    assert check(design, mended(links, report)).findings == ()


def test_two_spines_exchanged(design: Drawn) -> None:
    links = exchanged(design.links, "compute-spine-001", "compute-spine-002")
    [finding] = check(design, links).findings
    assert finding.exchange == ("compute-spine-001", "compute-spine-002")


def test_cable_in_the_wrong_spine() -> None:
    design = drawn(rails(designed_for=24))  # three units: spines of 16 ports have 12 in use
    link = next(link for link in design.links if link.b.device == "compute-spine-001")
    free = PortName("compute-spine-002", "16")
    assert free not in design.peer
    [finding] = check(design, replug(design.links, {link.b: free})).findings
    assert (finding.kind, finding.message) == ("wrong", f"{link.a} leads to {free}, not to {link.b}")
    [move] = finding.moves
    assert (move.taken, move.into) == (free, link.b)
    assert move.labels is not None and "compute-spine-001 port" in move.labels[0]


def test_cables_in_a_ring(design: Drawn) -> None:
    """Three cables, each in the next one's port: three moves, not six."""
    ports = [at(design, "compute-leaf-001", name) for name in ("1", "2", "3")]
    links = replug(design.links, dict(zip(ports, [*ports[1:], ports[0]], strict=True)))
    report = check(design, links)
    assert [finding.kind for finding in report.findings] == ["wrong"] * 3
    assert report.moves == 3
    assert check(design, mended(links, report)).findings == ()


def test_a_node_that_is_off_is_said_once(design: Drawn) -> None:
    links = [link for link in design.links if link.a.device != "gpu005"]
    report = check(design, links)
    assert said(report) == [("absent", "gpu005: no report of its 6 cables; is it on, and are its ports up?")]


def test_a_node_that_is_on_but_for_one_fabric(design: Drawn) -> None:
    links = [link for link in design.links if not (link.a.device == "gpu005" and link.a.name.startswith("compute"))]
    report = check(design, links)
    assert said(report) == [("absent", "gpu005: no report of its 4 cables on compute; is it on, and are its ports up?")]


def test_lldp_says_nothing_of_infiniband(design: Drawn) -> None:
    wired = [link for link in design.links if link.a.name.startswith("inband")]
    report = compare(design, Seen(tuple(wired), frozenset(("inband", link.a.device) for link in wired)))
    assert report.findings == ()
    assert report.unchecked == len(design.links) - len(wired)


def test_a_switch_that_is_off_is_said_once(design: Drawn) -> None:
    links = [link for link in design.links if "compute-leaf-001" not in (link.a.device, link.b.device)]
    [finding] = check(design, links).findings
    assert (finding.kind, len(finding.moves)) == ("absent", 16)


def test_extra_cables(design: Drawn) -> None:
    free = PortName("compute-spine-001", "99"), PortName("compute-spine-002", "99")
    out = CableEnds(PortName("inband-leaf-001", "20"), PortName("campus-router", "xe-0/0/1"))
    foreign = CableEnds(PortName("other-switch", "1"), PortName("campus-router", "2"))  # none of ours
    report = check(design, [*design.links, CableEnds(*free), out, foreign])
    assert said(report) == [
        ("extra", "compute-spine-001 port 99 -- compute-spine-002 port 99: the design has no such cable"),
        (
            "extra",
            "inband-leaf-001 port 20 -- campus-router port xe-0/0/1 leads to campus-router, which the design does not "
            "know by this name",
        ),
    ]


def test_what_nobody_looked_at_is_not_missing(design: Drawn) -> None:
    at_nodes = [link for link in design.links if link.a.device.startswith("gpu")]
    asked = frozenset((fabric, f"gpu{n:03}") for fabric in ("compute", "inband") for n in range(1, 13))
    report = compare(design, Seen(tuple(at_nodes), asked))
    assert report.findings == ()
    assert (report.as_drawn, report.unchecked) == (len(at_nodes), len(design.links) - len(at_nodes))


def test_two_neighbours_on_one_port(design: Drawn) -> None:
    port = at(design, "gpu001", "inband link 1")
    others = [
        CableEnds(port, PortName("gpu002", "inband link 1")),
        CableEnds(port, PortName("gpu003", "inband link 1")),
    ]
    rest = [link for link in design.links if link.a not in {link.a for link in others} | {link.b for link in others}]
    [finding, *missing] = check(design, [*rest, *others]).findings
    assert finding.kind == "ambiguous" and "has 2 neighbours" in finding.message
    assert {one.kind for one in missing} == {"missing"}
    # a report beside the right one changes nothing, and is named
    beside = check(design, [*design.links, *others])
    assert (beside.findings, beside.as_drawn, len(beside.notes)) == ((), len(design.links), 2)
    assert beside.notes[0] == f"{others[0]} is reported beside another neighbour of the port; one report may be old"


def test_reports_that_are_not_compared_are_named(design: Drawn) -> None:
    foreign = [CableEnds(PortName(f"sw{n}", "1"), PortName("router", "2")) for n in (1, 2)]
    report = check(design, [*design.links, *foreign])
    assert report.findings == ()
    assert report.notes == (
        "not compared: router port 2 -- sw1 port 1 and 1 more, between devices that the design does not know",
    )


def test_management_ports_of_switches_are_not_drawn(design: Drawn) -> None:
    eth0 = PortName("inband-leaf-001", "management eth0")
    report = check(design, [*design.links, CableEnds(eth0, PortName("oob-switch", "swp10"))])
    assert (report.findings, report.as_drawn) == ((), len(design.links))
    cable = "inband-leaf-001 management eth0 -- oob-switch port swp10"
    assert report.notes == (f"not compared: {cable}, of management ports",)
    port = at(design, "gpu001", "inband link 1")  # a node's cable is wrong there
    links = replug(design.links, {design.peer[port]: eth0})
    [finding] = check(design, links).findings
    assert (finding.kind, finding.message) == ("wrong", f"{port} leads to {eth0}, not to {design.peer[port]}")


@pytest.mark.parametrize("nodes", [1, 12])
def test_an_interface_in_no_fabric_may_lead_anywhere(nodes: int, design: Drawn) -> None:
    """A management network that the design does not have is no fault, but at a node that lacks a cable."""
    outside = [
        CableEnds(PortName(f"gpu{n:03}", "eno9"), PortName("mgmt-sw", f"Gi1/0/{n}")) for n in range(1, nodes + 1)
    ]
    report = check(design, [*design.links, *outside])
    assert (report.findings, report.as_drawn) == ((), len(design.links))
    more = " and 11 more" if nodes > 1 else ""
    assert report.notes == (
        f"not compared: gpu001 port eno9 -- mgmt-sw port Gi1/0/1{more}, of interfaces that are in no fabric, to "
        "devices that the design does not know",
    )
    swap = swapped(design.links, at(design, "gpu001", "inband link 1"), at(design, "gpu001", "inband link 2"))
    assert [finding.kind for finding in check(design, [*swap, *outside]).findings] == ["swapped"]
    lacking = [link for link in design.links if link.a != at(design, "gpu001", "inband link 1")]
    assert [each.kind for each in check(design, [*lacking, *outside]).findings] == ["missing", "extra"]
    other = [link for link in design.links if link.a != at(design, "gpu002", "inband link 1")]
    assert [each.kind for each in check(design, [*other, outside[0]]).findings] == ["missing"]


def test_two_neighbours_on_a_port_that_is_drawn_free(design: Drawn) -> None:
    free = PortName("inband-leaf-001", "20")
    report = check(design, [*design.links, *(CableEnds(free, PortName(name, "1")) for name in ("router", "phone"))])
    [finding] = report.findings
    assert (finding.kind, report.notes, report.as_drawn) == ("ambiguous", (), len(design.links))
    assert finding.message.startswith("inband-leaf-001 port 20 has 2 neighbours (router port 1, phone port 1)")


def unread(design: Drawn, *links: CableEnds) -> CablingReport:
    rest = [link for link in design.links if link.a not in {each.a for each in links}]
    seen = Seen((*rest, *links), everything(design), {"inband-leaf-001": "two numberings fit"})
    return compare(design, seen)


def test_a_port_that_cannot_be_read_is_unknown_not_as_drawn(design: Drawn) -> None:
    port = at(design, "gpu001", "inband link 1")
    report = unread(design, CableEnds(port, PortName("inband-leaf-001", "?")))
    assert said(report) == [("unknown", "inband-leaf-001: the port of 1 cable is unknown: two numberings fit")]
    assert (report.as_drawn, report.moves, report.unchecked) == (len(design.links) - 1, 1, 0)
    assert [move.action for finding in report.findings for move in finding.moves] == ["look"]


def test_a_cable_at_another_device_is_wrong_though_its_port_is_unknown(design: Drawn) -> None:
    port = at(design, "gpu001", "inband link 1")
    report = unread(design, CableEnds(PortName("inband-leaf-002", "?"), port))
    assert [finding.kind for finding in report.findings] == ["wrong", "unknown"]
    assert report.findings[0].message == (
        f"gpu001 inband link 1 leads to inband-leaf-002, not to {design.peer[port]}; its port there is unknown"
    )
    assert {move.action for finding in report.findings for move in finding.moves} == {"look"}


def test_another_report_of_the_same_cable_makes_its_port_known(design: Drawn) -> None:
    [link] = [link for link in design.links if link.a == PortName("gpu001", "inband link 1")]
    both = unread(
        design, link, CableEnds(link.a, PortName(link.b.device, "?")), CableEnds(PortName("gpu001", "?"), link.b)
    )
    assert both.findings == ()


@pytest.mark.parametrize("seed", range(40))
def test_moves_mend_whatever_was_done(seed: int) -> None:
    """Plugs shuffled, cables cut and cables added: doing what the report says makes the design, in the fewest moves."""
    design = drawn(rails(nodes=6, ports=8, rails=2))
    chance = random.Random(seed)
    plugs = [port for link in design.links for port in link] + [PortName("compute-leaf-001", f"9{n}") for n in range(3)]
    shuffled = chance.sample(plugs, chance.randint(2, 10))
    links = replug(design.links, dict(zip(shuffled, chance.sample(shuffled, len(shuffled)), strict=True)))
    links = [link for link in links if chance.random() > 0.03]
    report = check(design, links)
    assert check(design, mended(links, report)).findings == ()
    right = sum(design.right(link) for link in links)
    places, wrong = len(design.links) - right, len(links) - right
    if not any(finding.exchange for finding in report.findings):
        assert max(places, wrong) <= report.moves <= places + wrong


@pytest.mark.parametrize("seed", range(30))
def test_no_plan_has_fewer_moves(seed: int) -> None:
    """Against every way there is, for a switch with few cables: a place is filled from a cable with an end in it."""
    design = drawn(rails(nodes=3, ports=8, rails=1, leaf_oversubscription=3.0))
    chance = random.Random(seed)
    plugs = [port for link in design.links for port in link]
    shuffled = chance.sample(plugs, 6)
    links = replug(design.links, dict(zip(shuffled, chance.sample(shuffled, 6), strict=True)))
    report = check(design, links)
    if any(finding.exchange for finding in report.findings):
        return
    assert report.moves == _fewest(design, frozenset(map(frozenset, links)))


def _fewest(design: Drawn, start: frozenset[frozenset[PortName]]) -> int:
    """Breadth first over all states: one plug moves to any port, even one that is taken (its cable then hangs)."""
    done = {frozenset(link) for link in design.links}
    wrong, empty = start - done, done - start
    best = len(wrong) + len(empty)

    def search(left: list[frozenset[PortName]], places: frozenset[frozenset[PortName]], cost: int) -> None:
        nonlocal best
        if cost >= best:
            return
        if not left:
            best = min(best, cost + len(places))
            return
        cable, *rest = left
        search(rest, places, cost + 1)  # taken away
        for place in places:
            search(rest, places - {place}, cost + 2 - len(cable & place))

    search(sorted(wrong, key=sorted), frozenset(empty), 0)
    return best
