"""Preferences among versions of a package from several sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, LocalName, Resource, ResourceState
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class Pin(Resource):
    """A preference of apt's, as apt_preferences(5) has it."""

    kind: ClassVar[str] = "pins"
    apply_verb: ClassVar[str] = "pin"

    name: Annotated[str, "Name of its file in /etc/apt/preferences.d."]
    packages: Annotated[
        tuple[str, ...], "Names or patterns, several with blanks between, or one each.", LocalName.PACKAGE
    ]
    pin: Annotated[str, "`version 23.11.*`, `release n=bookworm-backports` or `origin packages.example.org`."]
    priority: Annotated[int, "As apt_preferences(5) has it."]

    def __post_init__(self) -> None:
        object.__setattr__(self, "packages", tuple(word for text in self.packages for word in text.split(" ")))

    def line(self, actual: ActualState) -> str:
        """Return the line in apt's words."""
        detail = f"{' '.join(self.packages)}: {self.pin}, priority {self.priority}"
        return f"{'~' if actual['exists'] else '+'} pin {self.name}: {detail}"


class PinState(ResourceState):
    """A pin that is not as desired."""

    name: Word
    exists: bool


RESOURCE, FOUND = Pin, PinState
