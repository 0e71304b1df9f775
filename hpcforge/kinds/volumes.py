"""File systems on a node's own drives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, LocalName, Resource, ResourceState
from hpcforge.wire_types import Count, Word


@dataclass(frozen=True)
class Volume(Resource):
    """An XFS file system on NVMe drives of the node, of which nothing but those where nothing is found is taken."""

    kind: ClassVar[str] = "volumes"
    apply_verb: ClassVar[str] = "formats"
    remove_verb: ClassVar[str] = "leaves"

    name: Annotated[str, "Its name."]
    uuid: Annotated[str, "Its name, independent of the place of its drives."]
    mount: Annotated[str, "Where it is mounted, by `mounts`; its quota is set there.", LocalName.PATH]
    drives: Annotated[int, "How many drives."]
    drive_mb: Annotated[int, "Size of each, decimal megabytes, to 2 %; 0: of any."] = 0
    raid: Annotated[int, "Level of md, 0, 1 or 6, of several drives; a single one has no array."] = 0
    quota_gib: Annotated[int, "Quota of a user, GiB; 0: none."] = 0

    def line(self, actual: ActualState) -> str:
        """Return the line with the drives to format, or with the other change."""
        if actual["exists"]:
            was, desired = (_size(gib) for gib in (actual.get("quota_gib") or 0, self.quota_gib))
            return f"~ volume {self.name}  " + (
                "write permissions" if was == desired else f"quota of a user {was} -> {desired}"
            )
        if "drives" not in actual:  # not observed
            many = "the NVMe drive" if self.drives == 1 else f"the {self.drives} NVMe drives"
            return f"+ volume {self.name}  FORMATS {many} on which nothing is found: {self._format}"
        if not actual["drives"]:
            return f"~ volume {self.name}  put together again from its own drives; nothing is formatted"
        return f"+ volume {self.name}  FORMATS {', '.join(actual['drives'])}, where nothing was found: {self._format}"

    @property
    def _format(self) -> str:
        return "XFS" if self.drives == 1 else f"XFS on RAID {self.raid}"

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Return the line on its removal: its drives stay unchanged."""
        return f"volume {name}: its drives and their data stay unchanged"


def _size(gib: int) -> str:
    return f"{gib} GiB" if gib else "none"


class VolumeState(ResourceState):
    """A volume that is not as desired. `drives`: drives that would be formatted."""

    name: Word
    exists: bool
    drives: list[Word]
    quota_gib: Count | None


RESOURCE, FOUND = Volume, VolumeState
