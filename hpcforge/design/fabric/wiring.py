"""Devices and cables under construction: the output of all builders. Pure."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hpcforge.design.fabric.graph import CABLE_KINDS, CableKind, Cables, Device, DeviceKind, Fabric, PortBlock
from hpcforge.design.fabric.spec import Ask, CannotBuildError, Model, OwnPorts

# Ports of leaves for ends with a rate or a breakout of their own, such as a file server among slower nodes. Pure.
#
# They take the last ports of a leaf that are fast enough, the same ports on every leaf, so that more nodes move no
# cable.


_IN_TURN = ("leaf-pair", "rail-optimised")  # topologies in which the links of an end go to leaves in turn


def reserve(ask: Ask, leaves: int) -> Ask:
    """Return the request with ports reserved on each leaf for ends with ports of their own. Raises CannotBuildError."""
    most: dict[OwnPorts, int] = {}
    for own, _, slot in own_places(ask, leaves):
        most[own] = max(most.get(own, 0), slot + 1)
    used: Counter[int] = Counter()  # by the first port of a kind
    blocks = []
    for own, links in most.items():
        count = -(-links // own.breakout)
        used[own.first] += count
        if used[own.first] > own.count:
            demand = f"ends of {own.rate_gbps:g} Gb/s take {used[own.first]} ports of a leaf"
            message = f"{ask.leaf.name} has too few ports for ends with a rate of their own"
            hint = "a switch with more such ports, a `breakout` of these ends, or fewer links"
            raise CannotBuildError("FABRIC-001", message, f"{demand} > {own.count}", hint)
        blocks.append(PortBlock(own.first + own.count - used[own.first], count, own.rate_gbps, own.breakout))
    return replace(ask, leaf=_without(ask.leaf, used), own_leaves=leaves, own_blocks=tuple(blocks))


def _without(model: Model, used: Counter[int]) -> Model:
    return replace(
        model,
        end_ports=model.end_ports - used[model.first_end],
        up_ports=model.up_ports - used[model.first_up],
    )


def own_places(ask: Ask, leaves: int) -> Iterator[tuple[OwnPorts, int, int]]:
    """Yield ports, leaf and place among them, of each link: all of an end on one leaf, or in turn to each."""
    turn: Counter[OwnPorts] = Counter()
    filled: Counter[tuple[OwnPorts, int]] = Counter()
    for end in ask.endpoints:
        if end.own is None:
            continue
        for link in range(end.links):
            leaf = turn[end.own] % leaves
            yield end.own, leaf, filled[end.own, leaf]
            filled[end.own, leaf] += 1
            turn[end.own] += ask.topology in _IN_TURN or link == end.links - 1


def own_ports(ask: Ask, down: int) -> Iterator[tuple[int, int]]:
    """Yield leaf and logical port of each link of ends with ports of their own, end by end."""
    blocks = blocks_of(ask, down)
    for own, leaf, slot in own_places(ask, ask.own_leaves):
        block = next(
            block
            for block in ask.own_blocks
            if (block.rate_gbps, block.breakout) == (own.rate_gbps, own.breakout)
            and own.first <= block.first < own.first + own.count
        )
        yield leaf, logical(blocks, block.first) + slot


def blocks_of(ask: Ask, down: int) -> tuple[PortBlock, ...]:
    """Return the ports of a leaf that hold ends; `down` of them hold nodes."""
    return (*ask.own_blocks, PortBlock(ask.leaf.first_end, down, ask.rate_gbps, ask.breakout))


def logical(blocks: Iterable[PortBlock], physical: int) -> int:
    """Return the logical port of the first lane of a physical one: each lane before it counts as a port."""
    before = ((block.breakout, min(block.count, max(0, physical - block.first))) for block in blocks)
    return physical + sum(ports * (breakout - 1) for breakout, ports in before)


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

        Later ports stay free for future nodes.
        """
        ports = self._count_rates(leaf_ports)
        links = [(index, link + 1) for index in range(len(self.ask.nodes)) for link in range(self.ask.rails)]
        first = self.first_leaf
        self.add("node_leaf", ((a, link, first + b, port) for (a, link), (b, port) in zip(links, ports, strict=False)))

    def plug_endpoints(self, leaf_ports: Iterable[Port], down: int) -> None:
        """Plug the ends that are not nodes: into `leaf_ports`, or into the ports reserved for them.

        `down` is the physical ports of a leaf that may hold other ends.
        """
        ask, shared, own = self.ask, iter(self._count_rates(leaf_ports)), own_ports(self.ask, down)
        cables = (
            (len(ask.nodes) + index, link + 1, self.first_leaf + leaf, port)
            for index, end in enumerate(ask.endpoints)
            for link in range(end.links)
            for leaf, port in [next(own if end.own else shared)]
        )
        self.add("other_leaf", cables)
        for end, leaf, _ in own_places(ask, ask.own_leaves):
            self._gbps[leaf] += end.rate_gbps

    def _count_rates(self, leaf_ports: Iterable[Port]) -> list[Port]:
        """Add the rate of places for ends, leaf by leaf; return the ports."""
        ports = list(leaf_ports)
        for leaf, _ in ports:
            self._gbps[leaf] += self.ask.rate_gbps
        return ports

    def fabric(self, tiers: int, down: int, notes: Iterable[str] = ()) -> Fabric:
        """Return the fabric; `down` is the physical ports of a leaf that may hold ends."""
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
    """Return the switches of a kind, "<fabric>-<kind>-001" and so on; `places` has the unit and rail of each."""
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
    """Return the logical port of a leaf for its end number `slot`, from 0."""
    return logical(ask.own_blocks, ask.leaf.first_end) + slot


def up_port(ask: Ask, down: int, link: int) -> int:
    """Return the logical port of a leaf for its uplink number `link`, from 0: after the ports for ends, or its own."""
    model = ask.leaf
    physical = model.first_end + down + link if model.shared else model.first_up + link
    return logical(blocks_of(ask, down), physical)
