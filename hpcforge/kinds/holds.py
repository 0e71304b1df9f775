"""Packages that stay at their version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, LocalName, Resource, ResourceState
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class Hold(Resource):
    """An installed package of which apt neither changes the version nor removes it, until it is held no more."""

    kind: ClassVar[str] = "holds"
    apply_verb: ClassVar[str] = "holds"
    remove_verb: ClassVar[str] = "lets go of"

    name: Annotated[str, "The package.", LocalName.PACKAGE]

    def line(self, actual: ActualState) -> str:  # noqa: ARG002
        """Return its line in a plan."""
        return f"~ hold package {self.name} at its version"

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Return the line on its removal."""
        return f"package {name}: no longer held, unless it was before hpcforge"


class HoldState(ResourceState):
    """A package that is not held; `exists`: it is installed."""

    name: Word
    exists: bool


RESOURCE, FOUND = Hold, HoldState
