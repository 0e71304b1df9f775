"""Parameters of the running kernel, as sysctl(8) names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, Resource, ResourceState
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class Sysctl(Resource):
    """A parameter of the kernel that has this value, now and after a restart of the node."""

    kind: ClassVar[str] = "sysctls"
    apply_verb: ClassVar[str] = "sets"
    remove_verb: ClassVar[str] = "puts back"

    name: Annotated[str, "As in `net.ipv4.ip_forward`."]
    value: Annotated[str, "What it is set to."]

    def line(self, actual: ActualState) -> str:
        """Return the line with its present value."""
        old = actual.get("value")
        note = f"{old} on the node" if old != self.value else "until the node restarts"
        return f"~ sysctl {self.name} = {self.value}" + (f"  ({note})" if actual["exists"] else "")

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Return the line on its removal: it gets its earlier value."""
        return f"sysctl {name}: restored to its value before hpcforge"


class SysctlState(ResourceState):
    """A parameter that is not as desired; `kept`: it will be after a restart."""

    name: Word
    exists: bool
    value: str | None
    kept: bool


RESOURCE, FOUND = Sysctl, SysctlState
