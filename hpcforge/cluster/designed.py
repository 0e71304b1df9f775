"""From a loaded blueprint to its design. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hpcforge.cluster.load import Loaded
from hpcforge.fabric.bill import bill
from hpcforge.fabric.summary import fabric_design
from hpcforge.facility import compute
from hpcforge.facility.design import Design
from hpcforge.facility.training import Run


def designed(loaded: Loaded, blueprint: str, runs: Iterable[Run] = ()) -> Design:
    """Return racks, power, cooling and fabrics as one design; `blueprint` is the path that it shows."""
    return compute.design(
        loaded.facility,
        blueprint,
        loaded.remarks,
        runs,
        fabrics=map(fabric_design, loaded.cables),
        cables=bill(loaded.cables, loaded.facility.room.catalog.cables),
    )
