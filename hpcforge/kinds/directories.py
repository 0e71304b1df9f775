"""Directories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypedDict

from hpcforge.kinds.resource import ActualState, LocalName, Resource
from hpcforge.wire_types import Path, Word


@dataclass(frozen=True)
class Directory(Resource):
    """A directory; its content is not managed."""

    kind: ClassVar[str] = "directories"

    path: Annotated[str, "Where it is.", LocalName.PATH]
    mode: Annotated[str, "Access rights, octal."] = "0755"
    owner: Annotated[str, "The user that owns it.", LocalName.ACCOUNT] = "root"
    group: Annotated[str, "The group that owns it.", LocalName.ACCOUNT] = "root"

    def line(self, actual: ActualState) -> str:  # noqa: ARG002
        """Return the line with its rights."""
        return f"~ directory {self.path}  {self.mode} {self.owner}:{self.group}"

    @classmethod
    def removal_line(cls, name: str) -> str | None:  # noqa: ARG003
        """Return None: hpcforge removes its own directory once it is empty, which is not worth a line."""
        return None


class DirectoryState(TypedDict):
    """A directory that is not as desired. `kind` is `unsafe` if a user other than root could redirect the path."""

    path: Path
    exists: bool
    kind: Literal["file", "directory", "symlink", "other", "unsafe"] | None
    mode: Word | None
    owner: Word | None
    group: Word | None


RESOURCE, FOUND = Directory, DirectoryState
