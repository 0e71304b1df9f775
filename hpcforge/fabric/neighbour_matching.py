"""From what devices say of their neighbours to cables between ports of the design. Pure.

A switch is known by its name in the design, or by what the inventory says that it says of itself. Its ports are read in
the ways in which switches spell them: `swp7`, `swp7s1` (lanes from 0), `Eth1/7`, `Ethernet7/2`, `7/2`, and the plain
numbers of InfiniBand, which count the ports behind all cages.

Which of a node's interfaces is which link, nobody says. Among nodes of the same hardware the interfaces that lead to a
fabric are as many as its links, and in their natural order (mlx5_2 before mlx5_10) they are its links; where three or
more nodes agree on another order, or some interface is seen on none, what most of them do decides. The blueprint's
`interfaces` of a fabric settles it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hpcforge.fabric.as_built import Seen
from hpcforge.fabric.cable_index import CableEnds, PortName
from hpcforge.fabric.graph import Fabric
from hpcforge.fabric.labels import ENDS

_AGREE = 3  # nodes that must agree before their order counts more than the natural one
_LONGEST_PORT = 100  # characters of the name of a port; what says more is no name


@dataclass(frozen=True)
class ReportedEnd:
    """One end of a cable as it is told: everything that names the device, and everything that names the port."""

    device: tuple[str, ...]
    port: tuple[str, ...]


@dataclass(frozen=True)
class Heard:
    """What was told. `asked` are the devices that told (or should have); `fabrics` those discovered as a whole."""

    neighbours: tuple[tuple[ReportedEnd, ReportedEnd], ...]
    asked: frozenset[str]
    fabrics: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Recognised:
    """Cables between ports of the design, and what could not be made out."""

    seen: Seen
    doubts: tuple[str, ...]


def recognise(
    fabrics: Sequence[Fabric],
    heard: Heard,
    said: Mapping[str, str],
    alike: Mapping[str, str],
    interfaces: Mapping[str, Sequence[str]],
    by_lldp: Collection[str],
) -> Recognised:
    """Return the cables.

    `said` has the device for what a switch says of itself (name, GUID or MAC), `alike` the hardware of each node,
    `interfaces` the order of a fabric's interfaces where the blueprint says it, `by_lldp` the fabrics whose cables
    nodes see by LLDP: not InfiniBand, and not those of management controllers.
    """
    work = _Matching(fabrics, said, heard)
    work.guess()
    pairs = [(work.place(end), work.place(other)) for end, other in heard.neighbours]
    names = _Interfaces(work, alike, interfaces)
    for place, other in pairs:
        names.count(place, other)
        names.count(other, place)
    names.settle()
    links = tuple(CableEnds(names.port(place), names.port(other)) for place, other in pairs)
    return Recognised(Seen(links, work.looked_at(heard, by_lldp)), (*work.doubts, *names.doubts))


@dataclass(frozen=True)
class _Place:
    """An end whose device is known, or not (`fabric` None and the device as it is told); of a node the interface."""

    device: str
    kind: str | None
    port: str
    fabric: str | None = None  # of a switch


class _Matching:
    def __init__(self, fabrics: Sequence[Fabric], said: Mapping[str, str], heard: Heard) -> None:
        self.said, self.fabrics = dict(said), {fabric.name: fabric for fabric in fabrics}
        self.heard = heard
        self.calls: dict[str, set[tuple[str, ...]]] = {}  # who goes by a name: unmanaged switches all have the same
        for end in (end for pair in heard.neighbours for end in pair):
            self.calls.setdefault(end.device[0], set()).add(end.device)
        self.doubts: dict[str, None] = {}
        self.drawn: dict[tuple[str, str], str] = {}  # a switch and its port to the device that belongs there
        self.kinds: dict[str, str] = {}
        self.switches: dict[str, tuple[Fabric, int]] = {}
        self.links: dict[
            tuple[str, str], dict[int, str]
        ] = {}  # fabric and end to its links, each with the leaf it is on
        for fabric in fabrics:
            for index, device in enumerate(fabric.devices):
                self.kinds[device.name] = device.kind
                if device.kind not in ENDS:
                    self.switches[device.name] = fabric, index
            for cable in fabric.cables:
                near, far = fabric.devices[cable.a], fabric.devices[cable.b].name
                if near.kind in ENDS:
                    self.links.setdefault((fabric.name, near.name), {})[cable.a_port] = far
                else:
                    self.drawn[near.name, fabric.port_label(cable.a, cable.a_port)] = far
                self.drawn[far, fabric.port_label(cable.b, cable.b_port)] = near.name
        self._ports: dict[str, dict[str, str]] = {}

    def device(self, names: Iterable[str]) -> str | None:
        """The device of the design that one of these names is of; a domain after it does not count."""
        for name in names:
            for spelled in (name, name.lower(), name.lower().partition(".")[0]):
                known = self.said.get(spelled, spelled)
                if known in self.kinds:
                    return known
        return None

    def place(self, end: ReportedEnd) -> _Place:
        device = self.device(end.device)
        if device is None:
            return _Place(self._stranger(end), None, end.port[0].lstrip("#") if end.port else "?")
        if device not in self.switches:
            return _Place(device, self.kinds[device], end.port[0] if end.port else "?")
        fabric, index = self.switches[device]
        known = self._ports.setdefault(device, _port_names(fabric, index))
        for text in end.port:
            for spelled in _spellings(text):
                if spelled in known:
                    return _Place(device, self.kinds[device], known[spelled], fabric.name)
        told = f" ({' or '.join(end.port)})" if end.port else ""
        self.doubts[f"{device}: a port that it does not have{told}; taken as drawn if the device is right"] = None
        return _Place(device, self.kinds[device], "?", fabric.name)

    def _stranger(self, end: ReportedEnd) -> str:
        """A device that the design does not know, told from others of its name."""
        return end.device[0] if len(self.calls[end.device[0]]) == 1 else f"{end.device[0]} ({end.device[-1]})"

    def guess(self) -> None:
        """Take a switch with a name of its own for the one switch, heard of nowhere else, whose every cable it has."""
        beside: dict[tuple[str, ...], list[_Place]] = {}
        known: set[str] = set()
        for pair in self.heard.neighbours:
            for end, other in (pair, pair[::-1]):
                place = self.place(other)
                if place.kind is not None:
                    known.add(place.device)
                    if self.device(end.device) is None:
                        beside.setdefault(end.device, []).append(place)
        self.doubts.clear()  # what is wrong with ports will be said once names are settled
        for names, places in beside.items():
            fitting = set.intersection(*(self._expected(place) for place in places)) - known
            if len(places) > 1 and len(fitting) == 1:
                [switch] = fitting
                stranger = self._stranger(ReportedEnd(names, ()))
                self.said[names[-1]] = switch
                known.add(switch)
                self.doubts[f"{stranger} has the cables of {switch} and is taken for it: say so in the inventory"] = (
                    None
                )

    def _expected(self, place: _Place) -> set[str]:
        """The switches that may be at the other end of a cable, by the design."""
        if place.kind in ENDS:
            return {leaf for (_, end), leaves in self.links.items() if end == place.device for leaf in leaves.values()}
        return {self.drawn.get((place.device, place.port), "")} & set(self.switches)

    def looked_at(self, heard: Heard, by_lldp: Collection[str]) -> frozenset[tuple[str, str]]:
        """Fabric and device: a node asked by LLDP sees its cables in some fabrics, a switch all of its own."""
        found = {(name, device.name) for name in heard.fabrics for device in self.fabrics[name].devices}
        for device in {device for name in heard.asked if (device := self.device((name,)))}:
            switch = self.switches.get(device)
            found |= {(switch[0].name, device)} if switch else {(name, device) for name in by_lldp}
        return frozenset(found)


def _port_names(fabric: Fabric, device: int) -> dict[str, str]:
    """Every label of a switch's ports, by itself and by `#` and the number that InfiniBand counts it by."""
    machine = fabric.devices[device]
    lanes = fabric.breakout if machine.kind == "leaf" else 1
    known = {}
    for port in range(1, machine.ports + (fabric.end_ports * (lanes - 1) if lanes > 1 else 0) + 1):
        label = fabric.port_label(device, port)
        number, lane = fabric.physical_port(device, port)
        known[label] = label
        known[f"#{(number - 1) * lanes + max(lane, 1)}"] = label
    return known


def _spellings(text: str) -> Iterable[str]:
    """The ways to read a port's name: "swp7s1" is 7/2, "Eth1/7" is 7 of slot 1, "#7" is InfiniBand's seventh."""
    yield text
    numbers = re.findall("[0-9]+", text[:_LONGEST_PORT])
    if not numbers or text.startswith("#") or len(text) > _LONGEST_PORT:
        return
    if found := re.fullmatch(r"swp([0-9]+)s([0-9]+)", text):
        yield f"{found[1]}/{int(found[2]) + 1}"
        return
    if "Ethernet" in text and "/" not in text and int(numbers[0]) % 4 == 0:
        return  # SONiC numbers lanes, Arista ports: it cannot be told
    yield "/".join(numbers)
    if len(numbers) > 1:
        if numbers[-1] == "1":
            yield "/".join(numbers[:-1])  # the first lane of a port that is not broken out
        yield "/".join(numbers[1:])  # a slot first


@dataclass
class _Interfaces:
    """Which interface of nodes of one hardware is which link of a fabric."""

    work: _Matching
    alike: Mapping[str, str]
    given: Mapping[str, Sequence[str]]
    seen: dict[tuple[str, str], dict[str, list[tuple[str, str]]]] = field(default_factory=dict)
    link_of: dict[tuple[str, str, str], int] = field(default_factory=dict)
    fabric_of: dict[tuple[str, str], str] = field(
        default_factory=dict
    )  # hardware and interface to the fabric it is for
    doubts: list[str] = field(default_factory=list)

    def count(self, end: _Place, switch: _Place) -> None:
        """Note that an interface leads to a switch."""
        if end.kind in ENDS and switch.fabric is not None:
            kind = self.alike.get(end.device, end.device)
            self.seen.setdefault((kind, end.port), {}).setdefault(switch.fabric, []).append((end.device, switch.device))

    def settle(self) -> None:
        """Decide for every kind of node and fabric."""
        groups: dict[tuple[str, str], dict[str, list[tuple[str, str]]]] = {}
        for (kind, interface), by_fabric in self.seen.items():
            fabric = max(by_fabric, key=lambda name: (len(by_fabric[name]), interface in self.given.get(name, ())))
            self.fabric_of[kind, interface] = fabric
            groups.setdefault((kind, fabric), {})[interface] = by_fabric[fabric]
        for (kind, fabric), seen in groups.items():
            links = max(
                (len(self.work.links.get((fabric, node), {})) for at in seen.values() for node, _ in at), default=0
            )
            for interface, link in self._order(fabric, links, seen).items():
                self.link_of[kind, fabric, interface] = link

    def _order(self, fabric: str, links: int, seen: Mapping[str, list[tuple[str, str]]]) -> dict[str, int]:
        if fabric in self.given:
            return {name: number for number, name in enumerate(self.given[fabric], start=1)}
        likely = sorted(sorted(seen, key=_natural), key=lambda name: -len(seen[name]))[:links]
        voted = {name: self._vote(fabric, seen[name]) for name in likely}
        nodes = {node for at in seen.values() for node, _ in at}
        clear = None not in voted.values() and len(set(voted.values())) == len(likely)
        if clear and (len(nodes) >= _AGREE or len(likely) < links):
            return {name: link for name, link in voted.items() if link is not None}
        if len(likely) < links:
            self.doubts.append(
                f"{fabric}: of {links} links of a node only {', '.join(sorted(seen, key=_natural))} are seen anywhere; "
                f"taken in this order, from link 1: say `interfaces` of {fabric} in the blueprint"
            )
        return {name: number for number, name in enumerate(sorted(likely, key=_natural), start=1)}

    def _vote(self, fabric: str, at: Iterable[tuple[str, str]]) -> int | None:
        """The link that an interface is on most nodes, by the leaf that it leads to; None if they do not agree."""
        votes: Counter[int] = Counter()
        nodes = 0
        for node, switch in at:
            nodes += 1
            votes.update(link for link, leaf in self.work.links.get((fabric, node), {}).items() if leaf == switch)
        best = votes.most_common(2)
        clear = best and best[0][1] * 2 > nodes and (len(best) < 2 or best[1][1] < best[0][1])
        return best[0][0] if clear else None

    def port(self, end: _Place) -> PortName:
        """The port of an end in the design's words."""
        if end.kind not in ENDS:
            return PortName(end.device, end.port)
        kind = self.alike.get(end.device, end.device)
        fabric = self.fabric_of.get((kind, end.port))
        link = self.link_of.get((kind, fabric or "", end.port))
        if fabric is None or link is None:
            return PortName(end.device, end.port)
        word = "rail" if self.work.fabrics[fabric].topology == "rail-optimised" and end.kind == "node" else "link"
        return PortName(end.device, f"{fabric} {word} {link}")


def _natural(name: str) -> list[tuple[int, str]]:
    """Order numbers in a name by what they count."""
    parts = enumerate(re.split("([0-9]{1,18})", name))
    return [(int(part), "") if place % 2 else (-1, part) for place, part in parts if part]
