"""Files that a node gets from the depot: the artifacts of role.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional

from hpcforge.kinds import directories, files
from hpcforge.kinds.resource import ActualState, LocalName, Resource
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class Download(Resource):
    """A file of root's that is fetched, and known by its SHA-256 (`digest`): where it comes from may change."""

    kind: ClassVar[str] = "downloads"
    apply_verb: ClassVar[str] = "downloads"

    path: Annotated[str, LocalName.PATH]
    url: str  # http://ADDRESS/...
    digest: str
    size_bytes: Optional[int]  # None: unknown, so the server's size counts
    mode: str  # octal

    def line(self, actual: ActualState) -> str:
        """Return the line with its digest; with its rights if only they differ."""
        sign = "~" if actual["exists"] else "+"
        if actual["exists"] and actual.get("digest") == self.digest:
            return f"{sign} download {self.path}  {actual['mode']} -> {self.mode} root:root"
        return f"{sign} download {self.path}  {self.mode} (SHA-256 {self.digest[:12]})"

    def drifted(self, actual: ActualState) -> bool:
        """Return whether another program changed or removed it."""
        return files.drifted(self.digest, actual)

    def input_changed(self, actual: ActualState) -> bool:
        """Return whether the difference is not drift."""
        return not self.drifted(actual)


class DownloadState(directories.DirectoryState):
    """A file that is not as desired: its SHA-256, and that of the last download."""

    digest: Word | None
    written: Word | None


RESOURCE, FOUND = Download, DownloadState
