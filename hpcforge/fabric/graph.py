"""A fabric as a graph: devices, and cables between their ports, in columns so that 200,000 cables stay small."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

DeviceKind = Literal["node", "endpoint", "leaf", "spine", "core"]
CableKind = Literal["node_leaf", "other_leaf", "leaf_spine", "spine_core", "peer", "local", "global"]
CABLE_KINDS: tuple[CableKind, ...] = ("node_leaf", "other_leaf", "leaf_spine", "spine_core", "peer", "local", "global")


@dataclass(frozen=True, slots=True)
class Device:
    """A switch, a node, or another end (subnet manager, storage)."""

    name: str  # switches: "<fabric>-leaf-001"; nodes: their own name
    kind: DeviceKind
    model: str | None  # switch model in the catalog; None for ends
    ports: int  # physical ports of a switch; links of an end
    unit: int | None = None  # scalable unit, leaf group or dragonfly group, from 0
    rail: int | None = None  # rail of a leaf or spine in a rail-optimised fabric, from 0


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


@dataclass(frozen=True)
class Fabric:
    """A fabric that can be built: what stands where in the topology, and what is plugged into what.

    Raises nothing: what cannot be built never becomes a Fabric. Nodes that `designed_for` leaves room for have no
    device and no cable, but their ports stay free.
    """

    name: str
    kind: Literal["infiniband", "roce", "ethernet", "omni-path"]
    topology: Literal["single-switch", "leaf-pair", "fat-tree", "rail-optimised", "dragonfly", "dragonfly+"]
    rate_gbps: float  # of one link of an end
    port_rate_gbps: float  # of one switch port: rate_gbps x breakout
    breakout: int  # ends that share one switch port; 1: none do
    rails: int  # links of a node
    designed_for: int  # nodes the wiring has room for
    tiers: int  # 1 to 3
    devices: tuple[Device, ...]  # nodes, endpoints, leaves, spines, cores, in this order
    cables: Cables

    @cached_property
    def index(self) -> dict[str, int]:
        """Devices by name."""
        return {device.name: index for index, device in enumerate(self.devices)}

    def port_label(self, device: int, port: int) -> str:
        """The port as it is printed on the machine: "7" or, of a broken-out port, "7/2"; "rail 3" or "link 1" of an end."""
        if self.devices[device].kind in ("node", "endpoint"):
            return f"rail {port}" if self.topology == "rail-optimised" else f"link {port}"
        # Only ports that hold ends are broken out; their logical numbers come first.
        raise NotImplementedError("A: decide how broken-out ports are numbered, and finish this")
