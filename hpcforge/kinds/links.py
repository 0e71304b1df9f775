"""Symbolic links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import Named, Resource, Said, Told
from hpcforge.wire import Path, Word


@dataclass(frozen=True)
class Link(Resource):
    """A symbolic link of root's. What was at its path, a file or another link, comes back after it."""

    kind: ClassVar[str] = "links"
    does: ClassVar[str] = "links"

    path: Annotated[str, "Where it is.", Named.PATH]
    target: Annotated[str, "What it points to.", Named.PATH]

    def line(self, found: Said) -> str:
        """With where it leads, and led."""
        old = f"  (to {found['target']} on the node)" if found.get("target") else ""
        return f"{'~' if found['exists'] else '+'} link {self.path} -> {self.target}{old}"


class Found(Told):
    """What is where a link is wanted. `kind` is as of a directory."""

    path: Path
    exists: bool
    kind: Word | None
    target: Path | None


RESOURCE, FOUND = Link, Found
