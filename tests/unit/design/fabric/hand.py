"""Small fabrics and floors made by hand, each port as a drawing on paper would have it."""

from __future__ import annotations

from array import array
from typing import Any

from hpcforge.blueprint.sections.site import Cabling
from hpcforge.design.fabric.floor import UNIT_M, RackOnFloor, Spot
from hpcforge.design.fabric.graph import CABLE_KINDS, Cable, Cables, Device, Fabric


def columns(cables: list[Cable]) -> Cables:
    return Cables(
        array("I", (c.a for c in cables)),
        array("I", (c.a_port for c in cables)),
        array("I", (c.b for c in cables)),
        array("I", (c.b_port for c in cables)),
        array("B", (CABLE_KINDS.index(c.kind) for c in cables)),
    )


def fabric(devices: list[Device], cables: list[Cable], **changes: Any) -> Fabric:
    facts: dict[str, Any] = {
        "name": "compute",
        "kind": "infiniband",
        "topology": "rail-optimised",
        "rate_gbps": 400.0,
        "port_rate_gbps": 400.0,
        "uplink_rate_gbps": 400.0,
        "breakout": 1,
        "rails": 2,
        "designed_for": 2,
        "tiers": 2,
        "first_end_port": 1,
        "end_ports": 4,
        "leaf_gbps": 800.0,
    }
    return Fabric(devices=tuple(devices), cables=columns(cables), **(facts | changes))


def two_rails(*, per_cage: int = 1, **changes: Any) -> Fabric:
    """Two nodes of two rails, two leaves, a spine with two links to each leaf."""
    devices = [
        Device("gpu001", "node", None, 2),
        Device("gpu002", "node", None, 2),
        Device("compute-leaf-001", "leaf", "qm9700", 8, 0, 0, per_cage),
        Device("compute-leaf-002", "leaf", "qm9700", 8, 0, 1, per_cage),
        Device("compute-spine-001", "spine", "qm9700", 8, per_cage=per_cage),
    ]
    node_leaf = [Cable(node, rail + 1, 2 + rail, node + 1, "node_leaf") for node in (0, 1) for rail in (0, 1)]
    up = [Cable(2 + leaf, 5 + n, 4, 1 + 2 * leaf + n, "leaf_spine") for leaf in (0, 1) for n in (0, 1)]
    return fabric(devices, node_leaf + up, **changes)


def rack(name: str, x_m: float, line: int = 0, room: str = "room", units: int | None = 48) -> RackOnFloor:
    return RackOnFloor(room, line, x_m, units * UNIT_M if units else None)


def spot(standing: RackOnFloor, name: str, u: int, height: int = 1) -> Spot:
    return Spot(standing, name, u, (u - 1 + height / 2) * UNIT_M)


RULES = Cabling.model_validate({"side_m": "0.5", "overhead_m": "0.5", "slack_m": "0.5"})
G01, I01 = rack("g01", 0.375), rack("i01", 1.125)
SPOTS = {
    "gpu001": spot(G01, "g01", 3, 8),
    "gpu002": spot(G01, "g01", 11, 8),
    "compute-leaf-001": spot(I01, "i01", 48),
    "compute-leaf-002": spot(I01, "i01", 47),
    "compute-spine-001": spot(I01, "i01", 46),
}
