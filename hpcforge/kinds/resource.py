"""The common part of all kinds of resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from hpcforge.kinds import KINDS

if TYPE_CHECKING:
    from typing import Self

ActualState = Mapping[str, Any]  # a node's report of a resource that is not as desired; at least `exists`


class LocalName(Enum):
    """The kind of name in a field, if distributions may have other names for it; part of its annotation."""

    PACKAGE = "package"
    UNIT = "unit"
    PATH = "path"
    ACCOUNT = "account"  # or a group
    COMMAND = "command"  # words, some of which are paths or units


class ResourceState(TypedDict, total=False):
    """Common fields of resources that are not as desired, if the node knows them."""

    put: bool  # the desired state was put last, so another program changed it


@dataclass(frozen=True, slots=True)
class Resource:
    """A desired resource of a node. The verbs are for plans; a field's annotation has its meaning."""

    kind: ClassVar[str]  # its name in the table
    apply_verb: ClassVar[str] = "writes"
    remove_verb: ClassVar[str] = "removes"

    @property
    def named(self) -> str:
        """Its name or path, unique in its kind."""
        return str(getattr(self, KINDS[self.kind].key))

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """Return a resource from JSON."""
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()})

    def line(self, actual: ActualState) -> str:
        """Return its line in a plan; `actual`: the node's present state."""
        return f"{'~' if actual['exists'] else '+'} {KINDS[self.kind].singular} {self.named}"

    def drifted(self, actual: ActualState) -> bool:
        """Return whether another program changed or removed it."""
        return bool(actual.get("put"))

    def input_changed(self, actual: ActualState) -> bool:
        """Return whether the desired state changed since it was last put."""
        return actual.get("put") is False

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Return the line on its removal; None: not worth one."""
        return f"{KINDS[cls.kind].singular} {name}"
