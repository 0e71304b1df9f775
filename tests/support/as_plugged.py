"""Fabrics for these tests, and cables to plug otherwise than drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hpcforge.design.fabric.as_built import CablingReport, Seen, compare
from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.cable_index import CableEnds, Drawn, PortName
from hpcforge.design.fabric.cabling import Labels
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.spec import Ask, Model


def names(stem: str, count: int) -> tuple[str, ...]:
    return tuple(f"{stem}{number:03}" for number in range(1, count + 1))


def rails(nodes: int = 12, ports: int = 16, rails: int = 4, name: str = "compute", **more: object) -> Fabric:
    """Rail-optimised InfiniBand of small switches: with 16 ports, units of 8 nodes."""
    switch = Model("small", ports, ports)
    ask = Ask(name, "infiniband", "rail-optimised", 400.0, 400.0, names("gpu", nodes), switch, switch, rails=rails)
    return build(replace(ask, **more))  # type: ignore[arg-type]


def pair(nodes: int = 4, name: str = "inband", peer_links: int = 2, switch_ports: int = 16) -> Fabric:
    """Two Ethernet leaves, each node on both."""
    switch = Model("small", switch_ports, switch_ports)
    ask = Ask(name, "ethernet", "leaf-pair", 25.0, 25.0, names("gpu", nodes), switch, switch, rails=2)
    return build(replace(ask, peer_links=peer_links))


def labels(*fabrics: Fabric) -> list[Labels]:
    return [Labels(fabric, [None] * len(fabric.devices)) for fabric in fabrics]


def drawn(*fabrics: Fabric) -> Drawn:
    return Drawn.of(labels(*fabrics))


def everything(design: Drawn) -> frozenset[tuple[str, str]]:
    return frozenset((str(design.fabric(link)), port.device) for link in design.links for port in link)


def check(design: Drawn, links: Iterable[CableEnds]) -> CablingReport:
    """Compare what is plugged in with the design, all devices looked at."""
    return compare(design, Seen(tuple(links), everything(design)))


def replug(links: Iterable[CableEnds], into: dict[PortName, PortName]) -> list[CableEnds]:
    """Every plug in one of these ports goes to the other."""
    return [CableEnds(into.get(link.a, link.a), into.get(link.b, link.b)) for link in links]


def swapped(links: Iterable[CableEnds], port: PortName, second: PortName) -> list[CableEnds]:
    return replug(links, {port: second, second: port})


def exchanged(links: Iterable[CableEnds], first: str, second: str) -> list[CableEnds]:
    """Two machines change places: the cables stay where they lie."""
    name = {first: second, second: first}
    return [CableEnds(*(PortName(name.get(port.device, port.device), port.name) for port in link)) for link in links]


def mended(links: Iterable[CableEnds], report: CablingReport) -> list[CableEnds]:
    """Do all that a report says."""
    plugged = {frozenset(link): link for link in links}
    for finding in report.findings:
        for move in finding.moves:
            if move.action in ("move", "take away"):
                del plugged[frozenset(move.cable)]
        for move in finding.moves:
            if move.action == "plug in" or (finding.kind == "absent" and move.labels):
                plugged[frozenset(move.cable)] = move.cable
            elif move.action == "move":
                assert move.taken is not None and move.into is not None
                link = CableEnds(move.cable.other(move.taken), move.into)
                plugged[frozenset(link)] = link
    return list(plugged.values())
