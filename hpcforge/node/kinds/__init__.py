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
UNKNOWN = "unknown"  # in a receipt: what was there before us, where it was as wanted when it was first seen
KeptItem = tuple[str, str, str]  # kind as `hpcforge.node.kept_on_removal` has it, name, why
Known = Any  # what the receipt has of a resource, in JSON; the module of its kind says what that is


class SpaceNeed(NamedTuple):
    """What is to be written below a path."""

    path: str
    size: int  # bytes
    inodes: int


class Handler(Protocol):
    """What the module of a kind has. `wanted` has the fields of its class; `name` is what its kind's key names."""

    def compare(self, wanted: Any) -> Optional[Json]:
        """Return the observed state if it differs: its name, `exists`, and more. Changes nothing."""

    def obstacle(self, wanted: Any, known: Known) -> Optional[str]:
        """Return the obstacle to putting it, and the remedy; `known`: the receipt's entry of it."""

    def put(self, wanted: Any) -> Optional[str]:
        """Make it so; what was changed, or None. Raises NodeError; LaterError for what has to wait."""

    def own(self, name: str, change: Optional[Any], made: set[str]) -> Known:
        """Return its entry for the receipt, above all the state before hpcforge's; None: it is not hpcforge's own.

        It is called before the resource is put (`change`), or if it is as desired already (None). `made`: directories
        made for hpcforge's resources, to which this call adds. For an object, `made` are its own, and hpcforge keeps
        `digest`.
        """

    def restore(self, name: str, known: Known, report: EventReporter) -> Optional[str]:
        """Make it what it was before us; what was done, or None where it is so already."""

    def room(self, wanted: Any) -> Sequence[SpaceNeed]:
        """Return the disk space that putting it needs."""


@runtime_checkable
class KeepsOnRemoval(Protocol):
    """What the module of a kind has besides, of which something stays when it is taken away."""

    def is_there(self, name: str) -> bool:
        """Whether it is there."""

    def stays(self, name: str, known: Known) -> Optional[KeptItem]:
        """Return the part of it that stays."""


def handler(kind: str) -> Handler:
    """Return the module of a kind; imported on request, since the node compiles each one every time."""
    return cast(Handler, importlib.import_module(f"hpcforge.node.kinds.{kind}"))


def resources(role: Mapping[str, Any], kind: ResourceKind) -> list[Any]:
    """Those of a kind that a role's request has, each as `resource` makes it."""
    return [resource(kind.name, item) for item in of_kind(role, kind.name)]


def resource(kind: str, plain: Mapping[str, Any]) -> Any:
    """One that came, with the fields of its kind's class: the class itself would cost a node time."""
    return SimpleNamespace(**{**DEFAULTS[kind], **plain})


def made(known: Known) -> list[str]:
    """Return the directories that were made for a resource."""
    found = known.get("made", []) if isinstance(known, dict) else known if isinstance(known, list) else []
    return list(found)
