"""A fabric as a graph: devices, and cables between their ports, in columns so that 200,000 cables stay small."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from typing import Literal

FabricKind = Literal["infiniband", "roce", "ethernet", "omni-path"]
Topology = Literal["single-switch", "leaf-pair", "fat-tree", "rail-optimised", "dragonfly", "dragonfly+"]
DeviceKind = Literal["node", "endpoint", "leaf", "spine", "core"]
CableKind = Literal["node_leaf", "other_leaf", "leaf_spine", "spine_core", "peer", "local", "global"]
ENDS = ("node", "endpoint")  # kinds of devices that are not switches
TO_ENDS = ("node_leaf", "other_leaf")  # kinds of cables with an end that is not a switch
CABLE_KINDS: tuple[CableKind, ...] = ("node_leaf", "other_leaf", "leaf_spine", "spine_core", "peer", "local", "global")


@dataclass(frozen=True, slots=True)
class Device:
    """A switch, a node, or another end (subnet manager, storage)."""

    name: str  # switches: "<fabric>-leaf-001"; nodes: their own name
    kind: DeviceKind
    model: str | None  # switch model in the catalog; None for ends
    ports: int  # physical ports of a switch; links of an end
    unit: int | None = (
        None  # of a leaf: scalable unit or dragonfly group, from 0; of a spine: its group; a core: its plane
    )
    rail: int | None = None  # rail of a leaf or spine in a rail-optimised fabric, from 0
    per_cage: int = 1  # ports behind one cage of a switch: 2 where a twin-port transceiver is shared
    rate_gbps: float | None = None  # of one link of an end, where it is not the fabric's
    group: str | None = None  # name under `endpoints`, for an end that is not among the fabric's `nodes`


@dataclass(frozen=True, slots=True)
class PortBlock:
    """Neighbouring physical ports of a leaf for ends of one rate, all split alike."""

    first: int
    count: int
    rate_gbps: float  # of one link of an end
    breakout: int  # ends that share one port; 1: it is not split


@dataclass(frozen=True, slots=True)
class Cable:
    """One cable. Devices are indices into `Fabric.devices`; `a` is the end nearer to the nodes."""

    a: int
    a_port: int  # ends: link index from 1 (rail r is link r + 1); switches: logical port from 1, see `port_label`
    b: int
    b_port: int
    kind: CableKind


@dataclass(frozen=True)
class Cables:
    """Cables in columns, all of the same length. Ordered by kind as in CABLE_KINDS, then by a, a_port."""

    a: array[int]
    a_port: array[int]
    b: array[int]
    b_port: array[int]
    kind: array[int]  # index into CABLE_KINDS

    def __len__(self) -> int:
        return len(self.a)

    def __iter__(self) -> Iterator[Cable]:
        for a, a_port, b, b_port, kind in zip(self.a, self.a_port, self.b, self.b_port, self.kind, strict=True):
            yield Cable(a, a_port, b, b_port, CABLE_KINDS[kind])


@dataclass(frozen=True, slots=True)
class GrowthMove:
    """A cable that growth moves to other ports; `to` None: it is removed."""

    taken: tuple[str, int, str, int]  # device and port of both ends
    to: tuple[str, int, str, int] | None
    kind: CableKind


@dataclass(frozen=True)
class Fabric:
    """A fabric that can be built: the place of each device in the topology, and every cable.

    An impossible fabric never becomes a Fabric. Nodes that `designed_for` leaves room for have no
    device and no cable, but their ports stay free.
    """

    name: str
    kind: FabricKind
    topology: Topology
    rate_gbps: float  # of one link of an end
    port_rate_gbps: float  # of one switch port that holds ends: rate_gbps x breakout
    uplink_rate_gbps: float  # of one link between switches
    breakout: int  # ends that share one switch port; 1: it is not split
    rails: int  # links of a node
    designed_for: int  # nodes that the wiring has room for
    tiers: int  # 1 to 3
    first_end_port: int  # of a leaf, physical: 1 but for a model with two kinds of ports
    end_ports: int  # of a leaf, physical, from that on: those that may hold ends
    leaf_gbps: float  # of all links of ends, on the leaf that has most, with every place for a node taken
    devices: tuple[Device, ...]  # nodes, endpoints, leaves, spines, cores, in this order
    cables: Cables
    notes: tuple[str, ...] = ()  # decisions that the blueprint leaves open, in words
    own_blocks: tuple[PortBlock, ...] = ()  # of each leaf: ports for ends with a rate or breakout of their own
    moves: tuple[GrowthMove, ...] = ()  # of cables, where there are more nodes than the design has room for
    designed: int | None = None  # the blueprint's designed_for, where there are more nodes than that

    @cached_property
    def index(self) -> dict[str, int]:
        """Devices by name."""
        return {device.name: index for index, device in enumerate(self.devices)}

    def count(self, kind: DeviceKind) -> int:
        """Return the number of devices of a kind."""
        return sum(device.kind == kind for device in self.devices)

    @cached_property
    def cable_counts(self) -> dict[CableKind, int]:
        """The number of cables of each kind, 0 included."""
        return {name: self.cables.kind.count(index) for index, name in enumerate(CABLE_KINDS)}

    def rate_of(self, kind: CableKind, a: int) -> float:
        """Return the rate of a cable from device `a`, Gb/s; on a broken-out port, that of one end."""
        return (self.devices[a].rate_gbps or self.rate_gbps) if kind in TO_ENDS else self.uplink_rate_gbps

    @cached_property
    def rates(self) -> dict[CableKind, Counter[float]]:
        """Cables by kind and rate, Gb/s; each other end may have a rate of its own."""
        counts: dict[CableKind, Counter[float]] = {}
        for (a, kind), count in Counter(zip(self.cables.a, self.cables.kind, strict=True)).items():
            name = CABLE_KINDS[kind]
            counts.setdefault(name, Counter())[self.rate_of(name, a)] += count
        return counts

    @cached_property
    def broken_out(self) -> tuple[PortBlock, ...]:
        """The broken-out ports of each leaf, the lowest first."""
        ends = PortBlock(self.first_end_port, self.end_ports, self.rate_gbps, self.breakout)
        blocks = sorted((ends, *self.own_blocks), key=lambda block: block.first)
        return tuple(block for block in blocks if block.breakout > 1)

    def breakout_of(self, device: int, number: int) -> int:
        """Return the number of ends that share a physical port of a switch; 1: it is not broken out."""
        blocks = self.broken_out if self.devices[device].kind == "leaf" else ()
        return next((b.breakout for b in blocks if b.first <= number < b.first + b.count), 1)

    def physical_port(self, device: int, port: int) -> tuple[int, int]:
        """Return a switch's logical port as the machine's port and the lane of its breakout; lane 0: not broken out.

        Lanes count as ports: with a breakout of 2, ports 1 to 4 are 1/1, 1/2, 2/1, 2/2, and the ports after those for
        ends continue from there.
        """
        if self.devices[device].kind != "leaf":
            return port, 0
        more = 0  # lanes of earlier ports, without the first of each
        for block in self.broken_out:
            place = port - more - block.first
            if place < 0:
                break
            if place < block.count * block.breakout:
                return block.first + place // block.breakout, place % block.breakout + 1
            more += block.count * (block.breakout - 1)
        return port - more, 0

    def port_label(self, device: int, port: int) -> str:
        """Return the port as it is printed on the machine.

        "7"; "7/2" for lane 2 of a broken-out port, or for the second port of a twin-port cage; "7/2/1" for both;
        "rail 3" or "link 1" of an end.
        """
        machine = self.devices[device]
        if machine.kind in ("node", "endpoint"):
            return f"rail {port}" if self.topology == "rail-optimised" and machine.kind == "node" else f"link {port}"
        number, lane = self.physical_port(device, port)
        cage, place = divmod(number - 1, machine.per_cage)
        text = f"{cage + 1}/{place + 1}" if machine.per_cage > 1 else f"{number}"
        return f"{text}/{lane}" if lane else text


def columns(fabric: Fabric, kind: CableKind) -> tuple[array[int], array[int]]:
    """Devices at both ends of the cables of a kind; they stand together in a fabric."""
    cables, number = fabric.cables, CABLE_KINDS.index(kind)
    count = cables.kind.count(number)
    first = cables.kind.index(number) if count else 0
    return cables.a[first : first + count], cables.b[first : first + count]


def oversubscription(fabric: Fabric) -> dict[str, float]:
    """Return the bandwidth down from a switch divided by that up, by tier, with every place for a node in use.

    leaf: links of ends x their rate / (uplinks x their rate), of the leaf that has most ends; a dragonfly's local links
    count as uplinks. Ports that stay empty by design do not count. spine, where there are cores: links to leaves /
    links to cores, of the spine that has most leaves. global, of a dragonfly: links of a group's ends x their rate /
    (its global links x their rate). A single switch, and a leaf pair, in which every node is on both switches, have 1.
    """
    down_gbps = fabric.leaf_gbps
    ups = Counter(chain(columns(fabric, "leaf_spine")[0], *columns(fabric, "local")))
    ratios = {"leaf": down_gbps / (max(ups.values()) * fabric.uplink_rate_gbps) if ups else 1.0}
    above = Counter(columns(fabric, "spine_core")[0])
    if above:
        below = Counter(columns(fabric, "leaf_spine")[1])
        ratios["spine"] = max(below.values()) / max(above.values())
    joined = Counter(fabric.devices[device].unit for device in chain(*columns(fabric, "global")))
    if joined:
        leaves = Counter(device.unit for device in fabric.devices if device.kind == "leaf")
        ratios["global"] = down_gbps * max(leaves.values()) / (max(joined.values()) * fabric.uplink_rate_gbps)
    return ratios


# The use of each port of each switch.
Use = CableKind | None  # None: free


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """A port of a switch. Its cable leads to `far` and `far_port`; a free port has no cable."""

    label: str
    use: Use
    cable: int = -1
    far: int = -1
    far_port: int = -1


@dataclass(frozen=True)
class PortRun:
    """Neighbouring ports with one use: 1 to 32 lead to gpu001 to gpu032, " rail 1"."""

    first: str
    last: str
    count: int
    use: Use
    names: tuple[str, ...]  # the devices at the other ends; () for free ports
    more: str  # text after the names: " rail 1", ", 4 each"


@dataclass(frozen=True)
class PortMap:
    """All ports of one switch, in order."""

    device: int
    ports: tuple[SwitchPort, ...]

    @property
    def used(self) -> int:
        """Ports with a cable."""
        return sum(port.use is not None for port in self.ports)


@dataclass(frozen=True)
class PortMaps:
    """The port maps of a fabric's switches."""

    fabric: Fabric

    @cached_property
    def _plugged(self) -> dict[int, dict[int, tuple[int, int, int]]]:
        """Switch, port: cable, device and port at the other end."""
        plugs: dict[int, dict[int, tuple[int, int, int]]] = {}
        columns = self.fabric.cables
        ends = enumerate(zip(columns.a, columns.a_port, columns.b, columns.b_port, strict=True))
        is_switch = [device.kind not in ENDS for device in self.fabric.devices]
        for cable, (a, a_port, b, b_port) in ends:
            if is_switch[a]:
                plugs.setdefault(a, {})[a_port] = cable, b, b_port
            plugs.setdefault(b, {})[b_port] = cable, a, a_port
        return plugs

    def __iter__(self) -> Iterator[PortMap]:
        """Every switch, in the order of the devices."""
        for index, device in enumerate(self.fabric.devices):
            if device.kind not in ENDS:
                yield self.of(index)

    def of(self, switch: int) -> PortMap:
        """Return the ports of one switch."""
        plugged, fabric = self._plugged.get(switch, {}), self.fabric
        kinds = fabric.cables.kind
        ports = []
        for number in range(1, logical_ports(fabric, fabric.devices[switch]) + 1):
            label = fabric.port_label(switch, number)
            plug = plugged.get(number)
            ports.append(SwitchPort(label, CABLE_KINDS[kinds[plug[0]]], *plug) if plug else SwitchPort(label, None))
        return PortMap(switch, tuple(ports))

    def runs(self, ports: Sequence[SwitchPort]) -> Iterator[PortRun]:
        """Fold neighbouring ports with one use."""
        for use, group in groupby(ports, key=lambda port: port.use):
            run = list(group)
            far = Counter(self.fabric.devices[port.far].name for port in run) if use else Counter[str]()
            yield PortRun(run[0].label, run[-1].label, len(run), use, tuple(far), self._more(run, far) if use else "")

    def _more(self, run: Sequence[SwitchPort], far: Counter[str]) -> str:
        """Return ` rail 1` if all lead to that rail, `, 4 each` if all switches have as many, else `, 1 to 2 each`."""
        if self.fabric.devices[run[0].far].kind in ENDS:
            links = {self.fabric.port_label(port.far, port.far_port) for port in run}
            return f" {links.pop()}" if len(links) == 1 else ""
        least, most = min(far.values()), max(far.values())
        if least != most:
            return f", {least} to {most} each"
        return f", {most} each" if len(far) > 1 and most > 1 else ""


def logical_ports(fabric: Fabric, device: Device) -> int:
    """Return the number of a switch's ports, where each lane of a broken-out port is one."""
    blocks = fabric.broken_out if device.kind == "leaf" else ()
    return device.ports + sum(block.count * (block.breakout - 1) for block in blocks)
