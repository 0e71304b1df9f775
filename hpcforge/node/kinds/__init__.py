"""The handlers of each kind of resource on a node: one module for each kind, by the names of the table.

A handler compares, creates and removes resources of its kind (`Handler`). It may import `hpcforge.kinds`, the helpers
of `hpcforge.node` and `hpcforge.node.package_manager`. The fields of a kind are in `hpcforge.kinds.NAME`; the order of
work is in `hpcforge.node.converge`, not here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, Optional, Protocol, cast, runtime_checkable

from hpcforge.kinds import ResourceKind
from hpcforge.node.events import EventReporter, Json
from hpcforge.node.schemas import DEFAULTS
from hpcforge.node.verbs import of_kind

BLOCK = 4096  # bytes
UNKNOWN = "unknown"  # in a receipt, as the earlier state: the resource was as desired at its first check
KeptItem = tuple[str, str, str]  # kind as `hpcforge.node.kept_on_removal` has it, name, reason
Known = Any  # the receipt's record of a resource, in JSON; the module of its kind defines it


class SpaceNeed(NamedTuple):
    """Bytes and inodes that a change writes below a path."""

    path: str
    size: int  # bytes
    inodes: int


class Handler(Protocol):
    """Functions of a kind's module. `desired` has the fields of the kind's class; `name` is the value of its key."""

    def compare(self, desired: Any) -> Optional[Json]:
        """Return the observed state if it differs: its name, `exists`, and more. Changes nothing."""

    def obstacle(self, desired: Any, record: Known) -> Optional[str]:
        """Return the obstacle to putting it, and the remedy; `record`: the receipt's entry of it."""

    def put(self, desired: Any) -> Optional[str]:
        """Apply it; return the change, or None. Raises NodeError; LaterError if it has to wait."""

    def own(self, name: str, change: Optional[Any], made: set[str]) -> Known:
        """Return its entry for the receipt, above all the state before hpcforge's; None: it is not hpcforge's own.

        It is called before the resource is put (`change`), or if it is as desired already (None). `made`: directories
        made for hpcforge's resources, to which this call adds. For an object, `made` are its own, and hpcforge keeps
        `digest`.
        """

    def restore(self, name: str, record: Known, report: EventReporter) -> Optional[str]:
        """Restore the state before hpcforge; return the change, or None without one."""

    def room(self, desired: Any) -> Sequence[SpaceNeed]:
        """Return the disk space that putting it needs."""


@runtime_checkable
class KeepsOnRemoval(Protocol):
    """More functions of a kind's module, if a part of its resources stays after their removal."""

    def is_there(self, name: str) -> bool:
        """Return whether it exists."""

    def stays(self, name: str, record: Known) -> Optional[KeptItem]:
        """Return the part of it that stays."""


def handler(kind: str) -> Handler:
    """Return the module of a kind; imported on request, since the node compiles each one every time."""
    return cast(Handler, importlib.import_module(f"hpcforge.node.kinds.{kind}"))


def resources(role: Mapping[str, Any], kind: ResourceKind) -> list[Any]:
    """Return the resources of a kind in a role's request, each as `resource` makes it."""
    return [resource(kind.name, item) for item in of_kind(role, kind.name)]


def resource(kind: str, plain: Mapping[str, Any]) -> Any:
    """Return a received resource with the fields of its kind's class: an import would cost the node time."""
    return SimpleNamespace(**{**DEFAULTS[kind], **plain})


def made(record: Known) -> list[str]:
    """Return the directories that were made for a resource."""
    directories = record.get("made", []) if isinstance(record, dict) else record if isinstance(record, list) else []
    return list(directories)
