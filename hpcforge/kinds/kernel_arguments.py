"""Arguments of the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, Resource, ResourceState
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class KernelArguments(Resource):
    """Words that GRUB gives every kernel of the node, from its next start on, which its role asks for by `disrupts`."""

    kind: ClassVar[str] = "kernel_arguments"
    apply_verb: ClassVar[str] = "kernel arguments:"
    remove_verb: ClassVar[str] = "removes kernel arguments:"

    name: Annotated[str, "NAME of its file in /etc/default/grub.d, `zz-hpcforge-NAME.cfg`."]
    words: Annotated[str, "With a blank between: letters, digits and `_.-=,:/`."]

    def line(self, actual: ActualState) -> str:  # noqa: ARG002
        """Return the line with its words."""
        return f"~ kernel arguments {self.name}: {self.words}"

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Return its line in a plan."""
        return f"kernel arguments {name}: none from the next start on"


class KernelArgumentsState(ResourceState):
    """Words that the next start would lack, or another content of hpcforge's file; `exists`: that file exists."""

    name: Word
    exists: bool


RESOURCE, FOUND = KernelArguments, KernelArgumentsState
