"""Packages that the package manager holds at their version. The receipt records whether hpcforge holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcforge.node import package_manager
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.holds import Hold


def compare(hold: Hold) -> Json | None:
    """Return its state, if it is not held."""
    name = hold.name
    manager = package_manager.of_node()
    return None if manager.is_held(name) else {"name": name, "exists": not manager.missing([name])}


def obstacle(hold: Hold, record: bool | None) -> str | None:  # noqa: ARG001
    """Return the obstacle: an invalid name. The package may come with the same request."""
    try:
        package_manager.of_node().missing([hold.name])
    except NodeError as error:
        return str(error)
    return None


def put(hold: Hold) -> str | None:
    """Hold it."""
    name, manager = hold.name, package_manager.of_node()
    if manager.is_held(name):
        return None
    if manager.missing([name]):
        raise NodeError(f"package {name!r} cannot be held: it is not installed; a role must install it")
    manager.hold(name, True)
    return "held"


def own(name: str, change: Hold | None, made: set[str]) -> bool:  # noqa: ARG001
    """Return whether hpcforge holds it."""
    return not package_manager.of_node().is_held(name)


def restore(name: str, record: bool, report: EventReporter) -> str | None:  # noqa: ARG001
    """Release it if hpcforge holds it."""
    manager = package_manager.of_node()
    if not record or not manager.is_held(name):
        return None
    manager.hold(name, False)
    return "let go of"


def room(hold: Hold) -> list[SpaceNeed]:  # noqa: ARG001
    """Return the space that the package manager needs to hold one."""
    return list(package_manager.of_node().hold_needs)
