"""What all kinds of resources have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from hpcforge.kinds import KINDS

if TYPE_CHECKING:
    from typing import Self

ActualState = Mapping[str, Any]  # what the node said of a resource that is not as wanted; at least `exists`


class LocalName(Enum):
    """What a field names, for which distributions may have a name of their own: said in its annotation."""

    PACKAGE = "package"
    UNIT = "unit"
    PATH = "path"
    ACCOUNT = "account"  # or a group
    COMMAND = "command"  # words, some of which are paths or units


class ResourceState(TypedDict, total=False):
    """What is said of every resource that is not as wanted, where the node knows."""

    put: bool  # it is wanted as we last put it, so somebody else changed it


@dataclass(frozen=True)
class Resource:
    """One thing that a node is to have. The words are those of plans; a field's annotation says what it means."""

    kind: ClassVar[str]  # its name in the table
    apply_verb: ClassVar[str] = "writes"
    remove_verb: ClassVar[str] = "removes"

    @property
    def named(self) -> str:
        """What tells it from others of its kind."""
        return str(getattr(self, KINDS[self.kind].key))

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """One that came as JSON."""
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()})

    def line(self, actual: ActualState) -> str:
        """Its line in a plan, where a node has `found` instead."""
        return f"{'~' if actual['exists'] else '+'} {KINDS[self.kind].singular} {self.named}"

    def drifted(self, actual: ActualState) -> bool:
        """Somebody else changed or removed it."""
        return bool(actual.get("put"))

    def input_changed(self, actual: ActualState) -> bool:
        """Something else is wanted than what was last put there."""
        return actual.get("put") is False

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Its line in a plan where nobody wants it any more; None: not worth one."""
        return f"{KINDS[cls.kind].singular} {name}"
