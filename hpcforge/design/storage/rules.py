"""Every rule of served file systems, as in `hpcforge.design.facility.rules`. Pure."""

from __future__ import annotations

from functools import partial

from hpcforge.design.facility import rules as facility
from hpcforge.design.facility.rules import DesignRule

_ALL = (
    DesignRule(
        "STORAGE-001",
        "error",
        "a server has the required capacity",
        "`needs.capacity_tib` of all file systems of a server against its drives: groups x data drives x capacity. "
        "Without `raid`, all drives count, an upper bound.",
        "More or larger drives under `nvme`, another server, or less in `needs`.",
    ),
    DesignRule(
        "STORAGE-002",
        "error",
        "a server has the required read rate",
        "`needs.read_gb_per_s` of all file systems of a server against the lower of two: its groups' drives x one "
        "drive's read rate, and its links x their rate x payload / 8. With `bond: 802.3ad` all its links count, "
        "else one.",
        "Faster links, more links in a bond, more drives, or another server.",
    ),
    DesignRule(
        "STORAGE-003",
        "error",
        "a server has the required write rate",
        "`needs.write_gb_per_s` of all file systems of a server against the lower of two: data drives of its groups "
        "x one drive's write rate, and its links, as for STORAGE-002.",
        "More or faster drives, less parity, faster links, or another server.",
    ),
    DesignRule(
        "STORAGE-004",
        "warning",
        "a drive may fail",
        "Drives of parity against one, of the volume with the files (`storage.X.raid`) or of the site's own array "
        "(`raid` of the hardware): without it the first failed drive loses files.",
        "raid: 6 or 1 of the volume; of the site's own raid: {data: 8, parity: 2}, or data: 1, parity: 1 (mirrors).",
    ),
    DesignRule(
        "STORAGE-005",
        "error",
        "there are drives for a group",
        "`raid.data` and `raid.parity` of a server against its equal drives, and `raid.groups` against the groups "
        "that these fill.",
        "Smaller groups or fewer, or more drives under `nvme`.",
    ),
    DesignRule(
        "STORAGE-008",
        "error",
        "apply builds the array that is promised",
        "`raid` of a server's hardware against the volume with the files: `storage.X.raid` of N drives is N + 0 at "
        "level 0, 1 + (N - 1) at level 1, (N - 2) + 2 at level 6. apply builds the volume, and design counts it.",
        "Set the level in `storage.X.raid`, and remove `raid` from the hardware.",
    ),
    DesignRule(
        "STORAGE-009",
        "warning",
        "the promised array is built",
        "`raid` of a server's hardware for files without a volume: apply builds no array there, and without a "
        "mount their `path` is on the system disk.",
        "A volume in `storage` (`drives`, `raid: 6`) with `path` in it; or mount your own array there.",
    ),
)
RULES: dict[str, DesignRule] = {rule.code: rule for rule in _ALL}


breach = partial(facility.breach, RULES)


def markdown() -> str:
    """Return the table of docs/storage.md."""
    return facility.table(_ALL)
