"""Parameters of the running kernel, as sysctl(8) names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import Resource, Said, Told
from hpcforge.wire import Word


@dataclass(frozen=True)
class Sysctl(Resource):
    """A parameter of the kernel that has this value, now and after a restart of the node."""

    kind: ClassVar[str] = "sysctls"
    does: ClassVar[str] = "sets"
    goes: ClassVar[str] = "puts back"

    name: Annotated[str, "As in `net.ipv4.ip_forward`."]
    value: Annotated[str, "What it is set to."]

    def line(self, found: Said) -> str:
        """With the value that it has."""
        old = found.get("value")
        here = f"{old} on the node" if old != self.value else "until the node restarts"
        return f"~ sysctl {self.name} = {self.value}" + (f"  ({here})" if found["exists"] else "")

    @classmethod
    def farewell(cls, name: str) -> str | None:
        """It gets the value that it had."""
        return f"sysctl {name}: restored to its value before hpcforge"


class Found(Told):
    """A parameter that is not as wanted; `kept`: it will be after a restart."""

    name: Word
    exists: bool
    value: str | None
    kept: bool


RESOURCE, FOUND = Sysctl, Found
