"""Devices and cables being put together: what all builders write into. Pure."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence

from hpcforge.design.fabric.graph import CABLE_KINDS, CableKind, Cables, Device, DeviceKind, Fabric
from hpcforge.design.fabric.own_ports import blocks_of, logical, own_places, own_ports
from hpcforge.design.fabric.spec import Ask, Model

Port = tuple[int, int]  # device and logical port


class Wiring:
    """Columns of cables, and devices in the order of a `Fabric`. Kinds of cables must be added in their order."""

    def __init__(self, ask: Ask, leaves: Sequence[Device], spines: Sequence[Device] = (), cores: Sequence[Device] = ()):
        ends: list[Device] = [Device(name, "node", None, ask.rails) for name in ask.nodes]
        ends += [
            Device(
                end.name,
                "endpoint",
                None,
                end.links,
                rate_gbps=end.own.rate_gbps if end.own else None,
                group=end.group,
            )
            for end in ask.endpoints
        ]
        self.ask = ask
        self.devices = (*ends, *leaves, *spines, *cores)
        self.first_leaf = len(ends)
        self.first_spine = self.first_leaf + len(leaves)
        self.first_core = self.first_spine + len(spines)
        self._columns = tuple(array("l") for _ in range(4))
        self._kinds = array("b")
        self._gbps: dict[int, float] = defaultdict(float)  # of each leaf: rate of the places for links of ends

    def add(self, kind: CableKind, cables: Iterable[tuple[int, int, int, int]]) -> None:
        """Add cables of a kind: device and port of either end, the end nearer to the nodes first."""
        number, before = CABLE_KINDS.index(kind), len(self._kinds)
        a, a_port, b, b_port = self._columns
        for cable in cables:
            a.append(cable[0])
            a_port.append(cable[1])
            b.append(cable[2])
            b_port.append(cable[3])
        self._kinds.extend(array("b", [number]) * (len(a) - before))

    def plug_ends(self, leaf_ports: Iterable[Port]) -> None:
        """Plug all nodes, link by link, into leaf ports (leaves counted from 0).

        Ports after those of the nodes there are stay free: they are for nodes that there is to be room for.
        """
        ports = self._taken(leaf_ports)
        links = [(index, link + 1) for index in range(len(self.ask.nodes)) for link in range(self.ask.rails)]
        first = self.first_leaf
        self.add("node_leaf", ((a, link, first + b, port) for (a, link), (b, port) in zip(links, ports, strict=False)))

    def plug_endpoints(self, leaf_ports: Iterable[Port], down: int) -> None:
        """Plug the ends that are no nodes: into `leaf_ports`, or into the ports that are kept for them.

        `down` is the physical ports of a leaf that may hold other ends.
        """
        ask, shared, own = self.ask, iter(self._taken(leaf_ports)), own_ports(self.ask, down)
        cables = (
            (len(ask.nodes) + index, link + 1, self.first_leaf + leaf, port)
            for index, end in enumerate(ask.endpoints)
            for link in range(end.links)
            for leaf, port in [next(own if end.own else shared)]
        )
        self.add("other_leaf", cables)
        for end, leaf, _ in own_places(ask, ask.own_leaves):
            self._gbps[leaf] += end.rate_gbps

    def _taken(self, leaf_ports: Iterable[Port]) -> list[Port]:
        """Count the rate of places for ends, leaf by leaf."""
        ports = list(leaf_ports)
        for leaf, _ in ports:
            self._gbps[leaf] += self.ask.rate_gbps
        return ports

    def fabric(self, tiers: int, down: int, notes: Iterable[str] = ()) -> Fabric:
        """The fabric; `down` is the physical ports of a leaf that may hold ends."""
        ask, (a, a_port, b, b_port) = self.ask, self._columns
        return Fabric(
            name=ask.name,
            kind=ask.kind,
            topology=ask.topology,
            rate_gbps=ask.rate_gbps,
            port_rate_gbps=ask.port_rate_gbps,
            uplink_rate_gbps=ask.uplink_rate_gbps,
            breakout=ask.breakout,
            rails=ask.rails,
            designed_for=ask.room,
            tiers=tiers,
            first_end_port=ask.leaf.first_end,
            end_ports=down,
            leaf_gbps=max(self._gbps.values()),
            devices=self.devices,
            cables=Cables(a, a_port, b, b_port, self._kinds),
            notes=tuple(notes),
            own_blocks=ask.own_blocks,
        )


def switches(ask: Ask, kind: DeviceKind, places: Sequence[tuple[int | None, int | None]], model: Model) -> list[Device]:
    """Switches of a kind, "<fabric>-<kind>-001" and so on; `places` has the unit and rail of each."""
    ports = model.first_up + model.up_ports - 1 if model.first_up >= model.first_end else 0
    ports = max(ports, model.first_end + model.end_ports - 1)
    if kind == "leaf":
        ports = max([ports, *(block.first + block.count - 1 for block in ask.own_blocks)])
    width = max(3, len(str(len(places))))
    return [
        Device(f"{ask.name}-{kind}-{number:0{width}}", kind, model.name, ports, unit, rail, model.per_cage)
        for number, (unit, rail) in enumerate(places, 1)
    ]


def end_port(ask: Ask, slot: int) -> int:
    """The logical port of a leaf for its end number `slot`, from 0."""
    return logical(ask.own_blocks, ask.leaf.first_end) + slot


def up_port(ask: Ask, down: int, link: int) -> int:
    """The logical port of a leaf for its uplink number `link`, from 0: after the ports for ends, or its own."""
    model = ask.leaf
    physical = model.first_end + down + link if model.shared else model.first_up + link
    return logical(blocks_of(ask, down), physical)
