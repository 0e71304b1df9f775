"""From a loaded blueprint to its design. Pure."""

from __future__ import annotations

from hpcforge.cluster.design import Design
from hpcforge.cluster.load import Loaded
from hpcforge.design.fabric.summary import bom, fabric_design
from hpcforge.design.facility import design_of_room
from hpcforge.design.storage.design import file_system_design


def designed(loaded: Loaded, blueprint: str) -> Design:
    """Return racks, power, cooling, fabrics and storage as one design; `blueprint` is the path that it shows."""
    racks, room = design_of_room.design(loaded.facility, blueprint), loaded.facility.room
    cables = bom(loaded.cables, room.catalog.cables)
    return Design(
        **(vars(racks) | {"bom": (*racks.bom, *cables)}),
        fabrics=tuple(map(fabric_design, loaded.cables)),
        storage=tuple(map(file_system_design, loaded.served)),
        diagnostics=loaded.remarks,
    )
