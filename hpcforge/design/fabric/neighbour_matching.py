"""Match devices' reports of their neighbours with ports of the design, as cables. Pure.

A switch is recognised by its name in the design, or by the identity in the inventory. `port_numbering` reads the names
of its Ethernet ports; InfiniBand's numbers count the ports behind all cages.

A node's interfaces that lead to a fabric are its links in their natural order (mlx5_2 before mlx5_10), unless the
blueprint's `interfaces` of the fabric states another. If nodes of the same hardware agree on another order, either
their cables are crossed or their interfaces have that order: those ports are unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hpcforge.blueprint.sections.hardware import Switch
from hpcforge.design.fabric.as_built import CablingReport, Seen, Unnamed, compare
from hpcforge.design.fabric.cable_index import CableEnds, Drawn, PortName
from hpcforge.design.fabric.cabling import Cabled
from hpcforge.design.fabric.graph import ENDS, Fabric, logical_ports
from hpcforge.design.fabric.port_numbering import PortFacts, SwitchNumbering, is_common_name, port_facts

_NO_FACTS = PortFacts()
_COUNTED = re.compile("#[0-9]{1,6}( of [0-9]{1,6})?")
_AGREE = 3  # nodes with the same other order are not a coincidence


@dataclass(frozen=True)
class ReportedEnd:
    """One end of a cable as a machine reports it: the names of the device, and those of the port by their source.

    The sources are the port's identifier, its description, and the machine's own name of its interface; a name that is
    missing before another is empty. `system` is the description of the device's system.
    """

    device: tuple[str, ...]
    port: tuple[str, ...]
    system: str = ""

    @classmethod
    def of_lldp(cls, device: tuple[str, ...], port: tuple[str, str, str], system: str) -> ReportedEnd:
        """Return the end that LLDP reports; `port` has the kind of its identifier, the identifier, the description."""
        kind, text, description = port
        ifindex = kind == "local" and text.isdigit() and text != description  # else the port's own name is a number
        if kind == "ifalias" or ifindex:
            text = text if is_common_name(text) else f"{kind} {text}"
        name = text if kind in ("ifname", "ifalias", "local", "") else ""
        return cls(device, (name, description) if description else (name,), system)

    @property
    def port_text(self) -> str:
        """The first name of the port."""
        return next((text for text in self.port if text), "?").partition(" of ")[0].lstrip("#")


@dataclass(frozen=True)
class Heard:
    """Reports of neighbours. `asked` are devices that reported (or should have); `fabrics` were discovered as a whole.

    `left_out` has the reports and lines that cannot be parsed, `unread` the files of other names.
    """

    neighbours: tuple[tuple[ReportedEnd, ReportedEnd], ...]
    asked: frozenset[str]
    fabrics: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recognised:
    """Cables between ports of the design, and doubts about reports.

    `unreported` are nodes with cables of which neither end reports, and InfiniBand fabrics.
    """

    seen: Seen
    doubts: tuple[str, ...]
    unreported: tuple[str, ...] = ()


def recognise(
    fabrics: Sequence[Fabric],
    reports: Heard,
    identities: Mapping[str, str],
    hardware: Mapping[str, str],
    interfaces: Mapping[str, Sequence[str]],
    by_lldp: Collection[str],
    facts: PortFacts = _NO_FACTS,
) -> Recognised:
    """Return the cables.

    `identities` maps what a switch reports of itself (name, GUID or MAC) to its device, `hardware` each node to its
    hardware, `interfaces` a fabric to the order of its interfaces where the blueprint sets it. `by_lldp` has the
    fabrics whose cables nodes report by LLDP: not InfiniBand, and not those of management controllers.
    """
    work = _Matching(fabrics, identities, reports, facts)
    work.guess()
    pairs = [(work.place(end), work.place(far)) for end, far in reports.neighbours]
    names = _Interfaces(work, hardware, interfaces)
    for place, far in pairs:
        names.count(place, far)
        names.count(far, place)
    names.settle()
    links = tuple(CableEnds(names.port(place), names.port(far)) for place, far in pairs)
    observed = Seen(links, work.looked_at(reports, by_lldp), work.unknown, work.unnamed)
    doubts = (*work.doubts, *names.doubts, *(f"not read: {file}" for file in reports.unread))
    return Recognised(observed, doubts, tuple(work.unreported(observed.looked_at, by_lldp)))


@dataclass(frozen=True)
class CablingFacts:
    """Facts from blueprint, inventory and catalog on devices and their ports."""

    identities: Mapping[str, str]  # what a switch reports of itself (name, GUID, MAC) to its name in the design
    hardware: Mapping[str, str]  # of each node
    interfaces: Mapping[str, Sequence[str]]  # by fabric, in order, where the blueprint states it
    by_lldp: Collection[str]  # fabrics whose cables nodes report by LLDP
    models: Mapping[str, Switch]  # the catalog's switches
    port_names: Mapping[str, Mapping[str, str]]  # by switch, label in the design to name


def compare_with_design(
    cables: Sequence[Cabled], reports: Heard, facts: CablingFacts
) -> tuple[Recognised, CablingReport]:
    """Return the cables that devices report, and how they differ from the design."""
    fabrics = [cabling.fabric for cabling in cables]
    ports = port_facts(fabrics, facts.models, facts.port_names)
    recognised = recognise(fabrics, reports, facts.identities, facts.hardware, facts.interfaces, facts.by_lldp, ports)
    return recognised, compare(Drawn.of(cabling.labels for cabling in cables), recognised.seen)


@dataclass(frozen=True)
class _Place:
    """An end of a cable; an unknown device has its reported name and no `fabric`, a node the name of an interface."""

    device: str
    kind: str | None
    port: str
    fabric: str | None = None  # of a switch


class _Matching:
    def __init__(
        self, fabrics: Sequence[Fabric], identities: Mapping[str, str], reports: Heard, facts: PortFacts = _NO_FACTS
    ) -> None:
        self.identities, self.fabrics = dict(identities), {fabric.name: fabric for fabric in fabrics}
        self.reports, self.facts = reports, facts
        self.calls: dict[str, set[tuple[str, ...]]] = {}  # devices by name: unmanaged switches all have the same
        for end in (end for pair in reports.neighbours for end in pair):
            self.calls.setdefault(end.device[0], set()).add(end.device)
        self.doubts: dict[str, None] = {}
        self.drawn: dict[tuple[str, str], str] = {}  # a switch and its port to the device that belongs there
        self.kinds: dict[str, str] = {}
        self.switches: dict[str, tuple[Fabric, int]] = {}
        self.links: dict[tuple[str, str], dict[int, str]] = {}  # fabric and end to its links, each with its leaf
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
        self.unnamed: dict[str, Unnamed] = {}
        self.unknown: dict[str, str] = {}  # devices with ports that cannot be read, and why
        self._systems: dict[str, dict[tuple[str, ...], str]] = {}  # of a switch's ports, to its system's description
        self._ports: dict[str, Mapping[tuple[str, ...], str]] = {}

    def device(self, names: Iterable[str]) -> str | None:
        """Return the design's device with one of these names; a domain, or CDP's serial number, does not count."""
        for name in names:
            for spelled in (name, name.lower(), name.lower().partition("(")[0].partition(".")[0]):
                drawn_name = self.identities.get(spelled, spelled)
                if drawn_name in self.kinds:
                    return drawn_name
        return None

    def place(self, end: ReportedEnd) -> _Place:
        device = self.device(end.device)
        if device is None:
            return _Place(self._stranger(end), None, end.port_text)
        if device not in self.switches:
            if end.port_text == "?":
                self.unknown[device] = "its neighbour reports no name of a port"
            return _Place(device, self.kinds[device], end.port_text)
        if device not in self._ports:
            self._ports[device] = self._number(device)
        label = self._ports[device].get(end.port, "?")
        return _Place(device, self.kinds[device], label, self.switches[device][0].name)

    def _number(self, device: str) -> Mapping[tuple[str, ...], str]:
        """Map each reported port of a switch to its label."""
        if not self._systems:
            for end in (end for pair in self.reports.neighbours for end in pair):
                if (switch := self.device(end.device)) in self.switches:
                    self._systems.setdefault(str(switch), {})[end.port] = end.system
        (fabric, index), reports = self.switches[device], self._systems[device]
        counted = {report: report[0] for report in reports if report and _COUNTED.fullmatch(report[0])}
        numbered = SwitchNumbering(fabric, index, self.facts).settle(
            {report: system for report, system in reports.items() if report not in counted}
        )
        labels = dict(_counted_ports(fabric, index, counted))
        strange = sorted(text for report, text in counted.items() if report not in labels)
        reasons = [numbered.unknown, f"not among its ports: {', '.join(strange)}" if strange else ""]
        if any(reasons):
            self.unknown[device] = "; ".join(filter(None, reasons))
        return {**numbered.labels, **labels}

    def _stranger(self, end: ReportedEnd) -> str:
        """Name a device that is not in the design, so that it differs from others with its name."""
        return end.device[0] if len(self.calls[end.device[0]]) == 1 else f"{end.device[0]} ({end.device[-1]})"

    def guess(self) -> None:
        """Match each unknown switch with the one unreported switch of the design that has the same cables.

        An ambiguous match goes to `unnamed`.
        """
        neighbours: dict[tuple[str, ...], list[_Place]] = {}
        reported: set[str] = set()
        for pair in self.reports.neighbours:
            for end, far_end in (pair, pair[::-1]):
                place = self.place(far_end)
                if place.kind is not None:
                    reported.add(place.device)
                    if self.device(end.device) is None:
                        neighbours.setdefault(end.device, []).append(place)
        for cache in (self.unknown, self._systems, self._ports):  # a switch may have more reports once it has a name
            cache.clear()
        fitting = {
            names: set.intersection(*(self._expected(place) for place in places)) - reported
            for names, places in neighbours.items()
            if len(places) > 1
        }
        while alone := next(
            (key for key, fits in fitting.items() if len(fits) == 1 and list(fitting.values()).count(fits) == 1), None
        ):
            [switch] = fitting.pop(alone)
            self.identities[alone[-1]] = switch
            fitting = {names: fits - {switch} for names, fits in fitting.items()}
            stranger = self._stranger(ReportedEnd(alone, ()))
            self.doubts[
                f"{stranger} has the cables of {switch} and counts as {switch}: write its name into the inventory"
            ] = None
        for names, fits in fitting.items():
            if fits:
                self.unnamed[self._stranger(ReportedEnd(names, ()))] = Unnamed(
                    tuple(sorted(fits)), self._identity(names)
                )

    def _identity(self, names: tuple[str, ...]) -> str:
        """Return a key and value that could identify a switch in the inventory."""
        if len(names) > 1 and len(self.calls[names[0]]) == 1:
            return f"system_name: {names[0]}"
        return f'{"guid" if names[-1].startswith("0x") else "mac"}: "{names[-1]}"'

    def _expected(self, place: _Place) -> set[str]:
        """Return the switches that may be at the other end of a cable, by the design."""
        if place.kind in ENDS:
            return {leaf for (_, end), leaves in self.links.items() if end == place.device for leaf in leaves.values()}
        return {self.drawn.get((place.device, place.port), "")} & set(self.switches)

    def looked_at(self, reports: Heard, by_lldp: Collection[str]) -> frozenset[tuple[str, str]]:
        """Return fabric and device: a node reports by LLDP its cables in some fabrics, a switch all of its own."""
        pairs = {(name, device.name) for name in reports.fabrics for device in self.fabrics[name].devices}
        for device in {device for name in reports.asked if (device := self.device((name,)))}:
            switch = self.switches.get(device)
            pairs |= {(switch[0].name, device)} if switch else {(name, device) for name in by_lldp}
        return frozenset(pairs)

    def unreported(self, looked_at: Collection[tuple[str, str]], by_lldp: Collection[str]) -> list[str]:
        """Return the nodes with cables that neither end reports, and the InfiniBand fabrics without a report."""
        nodes = {
            node: None
            for (fabric, node), leaf_of in self.links.items()
            if fabric in by_lldp and self.kinds[node] == "node" and (fabric, node) not in looked_at
            if any((fabric, leaf) not in looked_at for leaf in leaf_of.values())
        }
        discovered = [name for name, fabric in self.fabrics.items() if fabric.kind in ("infiniband", "omni-path")]
        return [*nodes, *(name for name in discovered if name not in self.reports.fabrics)]


def _counted_ports(
    fabric: Fabric, device: int, reports: Mapping[tuple[str, ...], str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the labels of ports as InfiniBand counts them: `#7`, or `#7 of 81` with the ports that the switch has.

    A switch whose ports are split counts two for each; a port that is drawn whole is the first of the two.
    """
    machine = fabric.devices[device]
    drawn = max(fabric.breakout_of(device, number) for number in range(1, machine.ports + 1))
    labels = {}
    for port in range(1, logical_ports(fabric, machine) + 1):
        number, lane = fabric.physical_port(device, port)
        labels[number, max(lane, 1)] = fabric.port_label(device, port)
    for report, text in reports.items():
        place, _, ports = text.lstrip("#").partition(" of ")
        count = int(ports) if ports else 0  # including one or two that are not on the front
        split = next((width for width in (1, 2, 4) if 0 <= count - width * machine.ports <= 2), drawn)
        number, lane = divmod(int(place) - 1, split) if split >= drawn else (-1, 0)
        if label := labels.get((number + 1, lane + 1)):
            yield report, label


_OtherOrder = frozenset[
    tuple[str, tuple[int, ...]]
]  # interfaces, and the links that are drawn to the leaf they lead to


@dataclass
class _Interfaces:
    """The mapping of interfaces to links of a fabric, for nodes of one hardware."""

    work: _Matching
    hardware: Mapping[str, str]
    declared: Mapping[str, Sequence[str]]
    observed: dict[tuple[str, str], dict[str, list[tuple[str, str]]]] = field(default_factory=dict)
    link_of: dict[tuple[str, str, str], int] = field(default_factory=dict)
    fabric_of: dict[tuple[str, str], str] = field(
        default_factory=dict
    )  # hardware and interface to the fabric it is for
    unsettled: set[tuple[str, str]] = field(default_factory=set)  # node and interface
    doubts: list[str] = field(default_factory=list)

    def count(self, end: _Place, switch: _Place) -> None:
        """Count an interface that leads to a switch."""
        if end.kind in ENDS and switch.fabric is not None and end.port != "?":
            kind = self.hardware.get(end.device, end.device)
            self.observed.setdefault((kind, end.port), {}).setdefault(switch.fabric, []).append(
                (end.device, switch.device)
            )

    def settle(self) -> None:
        """Set the order for every kind of node and fabric."""
        groups: dict[tuple[str, str], dict[str, list[tuple[str, str]]]] = {}
        for (kind, interface), by_fabric in self.observed.items():
            fabric = max(by_fabric, key=lambda name: (len(by_fabric[name]), interface in self.declared.get(name, ())))
            self.fabric_of[kind, interface] = fabric
            groups.setdefault((kind, fabric), {})[interface] = by_fabric[fabric]
        for (kind, fabric), by_interface in groups.items():
            links = max(
                (len(self.work.links.get((fabric, node), {})) for at in by_interface.values() for node, _ in at),
                default=0,
            )
            order = self._order(fabric, links, by_interface)
            for interface, link in order.items():
                self.link_of[kind, fabric, interface] = link
            if not self._is_given(fabric, by_interface):
                self._set_aside(fabric, order, by_interface)

    def _is_given(self, fabric: str, names: Iterable[str]) -> bool:
        """Whether the blueprint has the order; its names may be those of other hardware."""
        return not set(self.declared.get(fabric, ())).isdisjoint(names)

    def _order(self, fabric: str, links: int, by_interface: Mapping[str, list[tuple[str, str]]]) -> dict[str, int]:
        if self._is_given(fabric, by_interface):
            return {name: number for number, name in enumerate(self.declared[fabric], start=1)}
        likely = sorted(
            sorted(sorted(by_interface, key=_natural), key=lambda name: -len(by_interface[name]))[:links], key=_natural
        )
        if len(likely) < links:
            voted = [link for name in likely if (link := self._vote(fabric, by_interface[name])) is not None]
            if len(voted) == len(likely) and voted == sorted(set(voted)):
                return dict(zip(likely, voted, strict=True))
            self.doubts.append(
                f"{fabric}: of {links} links of a node only {', '.join(sorted(by_interface, key=_natural))} are "
                f"reported; their order here is that of the links: set `interfaces` of {fabric} in the blueprint"
            )
        return {name: number for number, name in enumerate(likely, start=1)}

    def _set_aside(
        self, fabric: str, order: Mapping[str, int], by_interface: Mapping[str, list[tuple[str, str]]]
    ) -> None:
        """Mark interfaces as unknown if they lead to other leaves than in this order and nodes agree on that."""
        leads: dict[str, dict[str, str]] = {}
        for name in order:
            for node, leaf in by_interface.get(name, ()):
                leads.setdefault(node, {})[name] = leaf
        orders: dict[_OtherOrder, list[str]] = {}
        natural = 0
        for node, leaf_of in leads.items():
            drawn = self.work.links.get((fabric, node), {})
            differing = {name: leaf for name, leaf in leaf_of.items() if drawn.get(order[name]) != leaf}
            natural += not differing
            if differing and Counter(leaf_of.values()) <= Counter(drawn.values()):
                places = {name: tuple(sorted(n for n in drawn if drawn[n] == leaf)) for name, leaf in differing.items()}
                orders.setdefault(frozenset(places.items()), []).append(node)
        for change, nodes in orders.items():
            agreeing = {also: members for also, members in orders.items() if change <= also or also <= change}
            count = sum(map(len, agreeing.values()))
            if count >= _AGREE or count > natural:
                reason = _either_order(fabric, order, max(agreeing, key=lambda also: (len(also), len(orders[also]))))
                for node in nodes:
                    self.unsettled |= {(node, name) for name, _ in change}
                    self.work.unknown[node] = "; ".join(filter(None, (self.work.unknown.get(node), reason)))

    def _vote(self, fabric: str, at: Iterable[tuple[str, str]]) -> int | None:
        """Return the link that an interface is on most nodes, by its leaf; None if they do not agree."""
        votes: Counter[int] = Counter()
        nodes = 0
        for node, switch in at:
            nodes += 1
            votes.update(link for link, leaf in self.work.links.get((fabric, node), {}).items() if leaf == switch)
        best = votes.most_common(2)
        clear = best and best[0][1] * 2 > nodes and (len(best) < 2 or best[1][1] < best[0][1])
        return best[0][0] if clear else None

    def port(self, end: _Place) -> PortName:
        """Return the port of an end by its name in the design."""
        if end.kind not in ENDS:
            return PortName(end.device, end.port)
        if (end.device, end.port) in self.unsettled:
            return PortName(end.device, "?")
        kind = self.hardware.get(end.device, end.device)
        fabric = self.fabric_of.get((kind, end.port))
        link = self.link_of.get((kind, fabric or "", end.port))
        if fabric is None or link is None:
            return PortName(end.device, end.port)
        word = "rail" if self.work.fabrics[fabric].topology == "rail-optimised" and end.kind == "node" else "link"
        return PortName(end.device, f"{fabric} {word} {link}")


def _either_order(fabric: str, order: Mapping[str, int], other_order: _OtherOrder) -> str:
    """Return the two possible orders of interfaces, each as the line of the blueprint that settles it."""
    unchanged = {link: name for name, link in order.items() if name not in dict(other_order)}
    places: dict[int, str] = {}
    for name, links in sorted(other_order, key=lambda item: _natural(item[0])):
        free = [link for link in links if link not in places]
        places[min(free, key=lambda link: (link in unchanged, link))] = name
    places = {**unchanged, **places}
    remaining = [name for name in order if name not in places.values()]
    places |= dict(zip((link for link in order.values() if link not in places), remaining, strict=False))
    current, alternative = (", ".join(names) for names in (order, [places[link] for link in sorted(places)]))
    return (
        f"either the cables are crossed, or the leaves exchanged: `interfaces: [{current}]` of {fabric} in the "
        f"blueprint; or the interfaces are in another order: `interfaces: [{alternative}]`"
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers in a name by value."""
    parts = enumerate(re.split("([0-9]{1,18})", name))
    return [(int(part), "") if place % 2 else (-1, part) for place, part in parts if part]
