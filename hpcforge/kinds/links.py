"""Symbolic links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, LocalName, Resource, ResourceState
from hpcforge.wire_types import Path, Word


@dataclass(frozen=True)
class Link(Resource):
    """A symbolic link of root's. What was at its path, a file or another link, comes back after it."""

    kind: ClassVar[str] = "links"
    apply_verb: ClassVar[str] = "links"

    path: Annotated[str, "Where it is.", LocalName.PATH]
    target: Annotated[str, "What it points to.", LocalName.PATH]

    def line(self, actual: ActualState) -> str:
        """Return the line with its desired and its present target."""
        old = f"  (to {actual['target']} on the node)" if actual.get("target") else ""
        return f"{'~' if actual['exists'] else '+'} link {self.path} -> {self.target}{old}"


class LinkState(ResourceState):
    """The entry at a link's path. `kind` is as of a directory."""

    path: Path
    exists: bool
    kind: Word | None
    target: Path | None


RESOURCE, FOUND = Link, LinkState
