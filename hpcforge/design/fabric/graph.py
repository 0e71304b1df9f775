"""A fabric as a graph: devices, and cables between their ports, in columns so that 200,000 cables stay small."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

FabricKind = Literal["infiniband", "roce", "ethernet", "omni-path"]
Topology = Literal["single-switch", "leaf-pair", "fat-tree", "rail-optimised", "dragonfly", "dragonfly+"]
DeviceKind = Literal["node", "endpoint", "leaf", "spine", "core"]
CableKind = Literal["node_leaf", "other_leaf", "leaf_spine", "spine_core", "peer", "local", "global"]
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
    group: str | None = None  # name under `endpoints` of an end that is none of the fabric's `nodes`


@dataclass(frozen=True, slots=True)
class PortBlock:
    """Neighbouring physical ports of a leaf for ends of one rate, all split alike."""

    first: int
    count: int
    rate_gbps: float  # of one link of an end
    breakout: int  # ends that share one port; 1: none do


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
    """A cable that growth takes out, and where it goes; `to` None: it is taken out and no other takes its place."""

    taken: tuple[str, int, str, int]  # device and port of both ends
    to: tuple[str, int, str, int] | None
    kind: CableKind


@dataclass(frozen=True)
class Fabric:
    """A fabric that can be built: what stands where in the topology, and what is plugged into what.

    Raises nothing: what cannot be built never becomes a Fabric. Nodes that `designed_for` leaves room for have no
    device and no cable, but their ports stay free.
    """

    name: str
    kind: FabricKind
    topology: Topology
    rate_gbps: float  # of one link of an end
    port_rate_gbps: float  # of one switch port that holds ends: rate_gbps x breakout
    uplink_rate_gbps: float  # of one link between switches
    breakout: int  # ends that share one switch port; 1: none do
    rails: int  # links of a node
    designed_for: int  # nodes the wiring has room for
    tiers: int  # 1 to 3
    first_end_port: int  # of a leaf, physical: 1 but for a model with two kinds of ports
    end_ports: int  # of a leaf, physical, from that on: those that may hold ends
    leaf_gbps: float  # of all links of ends, on the leaf that has most, with every place for a node taken
    devices: tuple[Device, ...]  # nodes, endpoints, leaves, spines, cores, in this order
    cables: Cables
    notes: tuple[str, ...] = ()  # what was decided that the blueprint does not say, in words
    own_blocks: tuple[PortBlock, ...] = ()  # of each leaf: ports for ends with a rate or breakout of their own
    moves: tuple[GrowthMove, ...] = ()  # where there are more nodes than it was designed for: what the growth moves
    designed: int | None = None  # the blueprint's designed_for, where there are more nodes than that

    @cached_property
    def index(self) -> dict[str, int]:
        """Devices by name."""
        return {device.name: index for index, device in enumerate(self.devices)}

    def count(self, kind: DeviceKind) -> int:
        """How many devices of a kind."""
        return sum(device.kind == kind for device in self.devices)

    @cached_property
    def cable_counts(self) -> dict[CableKind, int]:
        """Cables by kind, kinds without one too."""
        return {name: self.cables.kind.count(index) for index, name in enumerate(CABLE_KINDS)}

    def rate_of(self, kind: CableKind, a: int) -> float:
        """Rate of a cable from device `a`, Gb/s; one that ends on a broken-out port is one end of it."""
        return (self.devices[a].rate_gbps or self.rate_gbps) if kind in TO_ENDS else self.uplink_rate_gbps

    @cached_property
    def rates(self) -> dict[CableKind, Counter[float]]:
        """Cables by kind and rate, Gb/s; of other ends each may have its own."""
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
        """A switch's logical port as the port on the machine and the lane of its breakout; lane 0: not broken out.

        Lanes count as ports: with a breakout of 2, ports 1 to 4 are 1/1, 1/2, 2/1, 2/2, and what follows the ports for
        ends goes on from there.
        """
        if self.devices[device].kind != "leaf":
            return port, 0
        more = 0  # lanes beside the first of each port before
        for block in self.broken_out:
            place = port - more - block.first
            if place < 0:
                break
            if place < block.count * block.breakout:
                return block.first + place // block.breakout, place % block.breakout + 1
            more += block.count * (block.breakout - 1)
        return port - more, 0

    def port_label(self, device: int, port: int) -> str:
        """The port as it is printed on the machine.

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
