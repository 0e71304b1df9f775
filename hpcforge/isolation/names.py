"""Names of parts for people: node, rack and unit, GPU, port, and the labels at both ends of a cable. Pure.

GPUs count from 0, as the driver does; rails and uplinks from 1, as labels do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcforge.design.fabric.cabling import Labels
from hpcforge.design.fabric.graph import Cable
from hpcforge.isolation.state import BadPart, Part
from hpcforge.isolation.wiring import NodeWiring

_TO = {"cable": ("node_leaf",), "uplink": ("leaf_spine",)}


@dataclass(frozen=True)
class PartNames:
    """The names of a wiring's parts. Without a fabric plan, `labels` is None."""

    wiring: NodeWiring
    labels: Labels | None = None
    where: Mapping[str, str] = field(default_factory=dict)  # of nodes: "rack g01, U3"
    adapters_apart: bool = False  # each adapter was measured without its cable

    def words(self, part: Part) -> str:
        """Name one part."""
        if part.kind in ("node", "gpu", "adapter", "cable"):
            node = self._node(part.of)
            return {
                "node": f"node {node}",
                "gpu": f"GPU {part.at} of {node}",
                "adapter": f"the adapter of rail {part.at + 1} in {node}",
            }.get(part.kind) or self._cable(part, node)
        if part.kind == "pair":
            return f"the path between {self._node(part.of)} and {self._node(part.at)}"
        if part.kind == "rail":
            return f"rail {part.of + 1} as a whole"
        leaf = self._leaf(part.of)
        if part.kind == "leaf":
            return f"leaf {leaf}"
        return (
            f"all uplinks of {leaf}" if part.kind == "uplinks" else f"uplink {part.at + 1} of {leaf}{self._ends(part)}"
        )

    def all(self, finding: BadPart) -> str:
        """Name the part of a finding, or its candidates. Uplinks that some values passed are not all bad."""
        partial = finding.parts[0].kind == "uplinks" and finding.good > 0
        return " or ".join(
            f"uplinks of {self._leaf(part.of)}" if partial else self.words(part) for part in finding.parts
        )

    def nodes(self, part: Part) -> tuple[str, ...]:
        """Return the nodes that a part belongs to."""
        if part.kind in ("node", "gpu", "adapter", "cable"):
            return (self.wiring.nodes[part.of],)
        return (self.wiring.nodes[part.of], self.wiring.nodes[part.at]) if part.kind == "pair" else ()

    def _node(self, number: int) -> str:
        name = self.wiring.nodes[number]
        return f"{name} ({self.where[name]})" if name in self.where else name

    def _cable(self, part: Part, node: str) -> str:
        if not self.wiring.known:
            return f"the network of {node}" + (f", rail {part.at + 1}" if self.wiring.rails > 1 else "")
        label = "the cable" if self.adapters_apart else "the cable or adapter"
        return f"{label} of rail {part.at + 1} at {node}{self._ends(part)}"

    def _leaf(self, leaf: int) -> str:
        if self.labels is None:
            return f"leaf {leaf}"
        devices = self.labels.fabric.devices
        index = [number for number, device in enumerate(devices) if device.kind == "leaf"][leaf]
        spot = self.labels.spots[index] if index < len(self.labels.spots) else None
        return f"{devices[index].name} (rack {spot.rack}, U{spot.u})" if spot else devices[index].name

    def _ends(self, part: Part) -> str:
        """Return the labels at both ends of a cable."""
        cable = self._find_cable(part)
        if cable is None or self.labels is None:
            return ""
        a, b = self.labels.both(cable)
        return f', labels "{a}" and "{b}"'

    def _find_cable(self, part: Part) -> Cable | None:
        if self.labels is None:
            return None
        fabric, kinds = self.labels.fabric, _TO[part.kind]
        if part.kind == "cable":
            device = fabric.index[self.wiring.nodes[part.of]]
            return next(
                (c for c in fabric.cables if c.a == device and c.a_port == part.at + 1 and c.kind in kinds), None
            )
        first = next(index for index, device in enumerate(fabric.devices) if device.kind == "leaf")
        cables = [cable for cable in fabric.cables if cable.a == first + part.of and cable.kind in kinds]
        return cables[part.at] if part.at < len(cables) else None
