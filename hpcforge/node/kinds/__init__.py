"""What is done with each kind of resource on a node: one module a kind, by the names of the table."""

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
        """What stands in the way of putting it, and what to do about that; `known`: what the receipt has of it."""

    def put(self, wanted: Any) -> Optional[str]:
        """Make it so; what was changed, or None. Raises NodeError; LaterError for what has to wait."""

    def own(self, name: str, change: Optional[Any], made: set[str]) -> Known:
        """What the receipt is to have of it, above all what was there before us; None: it is not ours.

        Before it is put (`change`), or where it is as wanted already (None). `made`: directories that were made for
        what is ours; it learns of more. Of an object, `made` are those for this one, and `digest` is kept by us.
        """

    def restore(self, name: str, known: Known, report: EventReporter) -> Optional[str]:
        """Make it what it was before us; what was done, or None where it is so already."""

    def room(self, wanted: Any) -> Sequence[SpaceNeed]:
        """What putting it takes on the node's disks."""


@runtime_checkable
class KeepsOnRemoval(Protocol):
    """What the module of a kind has besides, of which something stays when it is taken away."""

    def is_there(self, name: str) -> bool:
        """Whether it is there."""

    def stays(self, name: str, known: Known) -> Optional[KeptItem]:
        """What stays of it."""


def handler(kind: str) -> Handler:
    """The module of a kind; imported when it is asked for, since each is compiled on the node every time."""
    return cast(Handler, importlib.import_module(f"hpcforge.node.kinds.{kind}"))


def resources(role: Mapping[str, Any], kind: ResourceKind) -> list[Any]:
    """Those of a kind that a role's request has, each as `resource` makes it."""
    return [resource(kind.name, item) for item in of_kind(role, kind.name)]


def resource(kind: str, plain: Mapping[str, Any]) -> Any:
    """One that came, with the fields of its kind's class: the class itself would cost a node time."""
    return SimpleNamespace(**{**DEFAULTS[kind], **plain})


def made(known: Known) -> list[str]:
    """The directories that were made for a resource."""
    found = known.get("made", []) if isinstance(known, dict) else known if isinstance(known, list) else []
    return list(found)
