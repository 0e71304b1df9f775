"""Packages that the package manager holds at their version. The receipt has whether we hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcforge.node import package_manager
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.holds import Hold


def compare(wanted: Hold) -> Json | None:
    """Whether it is held."""
    name = wanted.name
    manager = package_manager.of_node()
    return None if manager.is_held(name) else {"name": name, "exists": not manager.missing([name])}


def obstacle(wanted: Hold, known: bool | None) -> str | None:  # noqa: ARG001
    """Return the obstacle: an invalid name. The package may come with the same request."""
    try:
        package_manager.of_node().missing([wanted.name])
    except NodeError as error:
        return str(error)
    return None


def put(wanted: Hold) -> str | None:
    """Hold it."""
    name, manager = wanted.name, package_manager.of_node()
    if manager.is_held(name):
        return None
    if manager.missing([name]):
        raise NodeError(f"package {name!r} cannot be held: it is not installed; a role must install it")
    manager.hold(name, True)
    return "held"


def own(name: str, change: Hold | None, made: set[str]) -> bool:  # noqa: ARG001
    """Whether we are to hold it."""
    return not package_manager.of_node().is_held(name)


def restore(name: str, known: bool, report: EventReporter) -> str | None:  # noqa: ARG001
    """Let go of what we hold."""
    manager = package_manager.of_node()
    if not known or not manager.is_held(name):
        return None
    manager.hold(name, False)
    return "let go of"


def room(wanted: Hold) -> list[SpaceNeed]:  # noqa: ARG001
    """Return the space that the package manager needs to hold one."""
    return list(package_manager.of_node().hold_needs)
