"""The specification of a fabric: the input of every builder, free of files and of the catalog's unknowns. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from hpcforge.design.fabric.graph import FabricKind, PortBlock, Topology
from hpcforge.errors import ExpectedError


class CannotBuildError(ExpectedError):
    """The fabric is impossible. `code` is the broken rule, `arithmetic` the comparison."""

    kind = "invalid"

    def __init__(self, code: str, message: str, arithmetic: str | None = None, hint: str = "") -> None:
        super().__init__(message, hint)
        self.code, self.arithmetic = code, arithmetic


@dataclass(frozen=True)
class Model:
    """A switch model as a fabric uses it: its ports for ends and for uplinks, which are often the same."""

    name: str
    end_ports: int  # physical ports that take ends, numbered from `first_end`
    up_ports: int  # physical ports that take links to switches, numbered from `first_up`
    first_end: int = 1
    first_up: int = 1
    per_cage: int = 1

    @property
    def shared(self) -> bool:
        """True if a port may be either."""
        return self.first_end == self.first_up


@dataclass(frozen=True)
class OwnPorts:
    """The ports of a leaf for ends with a rate or a breakout of their own: `count` of its model, from `first` on."""

    rate_gbps: float  # of one link
    breakout: int
    first: int
    count: int


@dataclass(frozen=True)
class OtherEnd:
    """An end that is not among the fabric's `nodes`: a subnet manager, storage."""

    name: str
    links: int
    own: OwnPorts | None = None  # None: it takes ports as nodes do
    group: str | None = None  # its name under `endpoints`


@dataclass(frozen=True)
class Ask:
    """A fabric, in numbers. Rates are in Gb/s."""

    name: str
    kind: FabricKind
    topology: Topology
    rate_gbps: float
    uplink_rate_gbps: float
    nodes: tuple[str, ...]
    leaf: Model
    spine: Model
    rails: int = 1
    designed_for: int = 0  # 0: as many nodes as there are
    endpoints: tuple[OtherEnd, ...] = ()
    breakout: int = 1
    leaf_oversubscription: float = 1.0
    spine_oversubscription: float = 1.0
    uplinks: int | None = None  # None: by the oversubscription
    peer_links: int = 2
    groups: int | None = None  # of a dragonfly; None: the fewest
    own_leaves: int = 1  # number of leaves for ends with ports of their own
    own_blocks: tuple[PortBlock, ...] = ()  # ports of each leaf reserved for these ends

    @property
    def room(self) -> int:
        """Nodes that the wiring has room for; at least one, as a fabric of other ends alone has a switch, too."""
        return max(self.designed_for, len(self.nodes), 1)

    @property
    def port_rate_gbps(self) -> float:
        """Rate of a port that holds ends."""
        return self.rate_gbps * self.breakout

    @property
    def other_links(self) -> int:
        """Links of all ends that are not nodes and use the same ports as nodes."""
        return sum(end.links for end in self.endpoints if end.own is None)

    @property
    def own_gbps(self) -> float:
        """The rate of a leaf's ports that are reserved for ends with ports of their own, Gb/s."""
        return sum(block.count * block.breakout * block.rate_gbps for block in self.own_blocks)

    @property
    def slots(self) -> int:
        """Links of all ends, present and future."""
        return self.room * self.rails + self.other_links


def whole(ratio: float) -> int:
    """Round up; a rounding error of floating point above a whole number does not count."""
    return ceil(ratio - 1e-9)
