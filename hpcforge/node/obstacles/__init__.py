"""Obstacles: properties of a host on which an apply would fail, or that an apply would break. Read before any change.

A subject is a module of this folder, named in `SUBJECTS`, with a function `search(inspection)` that yields `Conflict`s,
and texts as warnings; those of `OF_PACKAGES` are the package manager's. It changes nothing, takes at most 0.1 s of CPU
on a healthy host, and ends by itself. A subject that fails is reported and hides no other one. An obstacle concerns
only resources of the present roles: a package on hold that no role installs is not one. Subjects may import
`hpcforge.kinds` and the rest of `hpcforge.node`.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from hpcforge.kinds import ResourceKind
from hpcforge.node import ownership, package_manager
from hpcforge.node.events import EventReporter, explain
from hpcforge.node.inspection import Conflict, Inspection
from hpcforge.node.kinds import handler
from hpcforge.node.receipt import Receipt

if TYPE_CHECKING:
    from hpcforge.kinds.resource import Resource
    from hpcforge.node import answer_types
    from hpcforge.node.requests import DesiredRoleRequest

SUBJECTS: tuple[str, ...] = (
    "files",
    "name_service",
    "occupied_ports",
    "old_state",
    "package_sources",
    "packages",
    "replaced_units",
    "shadowing_programs",
    "space",
)
OF_PACKAGES = ("package_sources", "packages")
ALWAYS = ("old_state", "shadowing_programs", "space")  # also on a host with nothing to change


def search(inspection: Inspection, report: EventReporter) -> Iterator[answer_types.ObstacleAnswer]:
    """Yield the obstacles that each subject reports."""
    for subject in SUBJECTS if inspection.roles else ALWAYS:
        try:
            for conflict in _search(subject, inspection):
                if isinstance(conflict, str):
                    report.warning(conflict)
                else:
                    yield answer(conflict)
        except Exception as error:
            report.warning(f"whether {subject.replace('_', ' ')} would stop an apply is not known: {explain(error)}")


def _search(subject: str, inspection: Inspection) -> Iterator[Conflict | str]:
    if subject in OF_PACKAGES:
        return package_manager.of_node().obstacles(subject, inspection)
    module = importlib.import_module(f"hpcforge.node.obstacles.{subject}")
    return cast("Iterator[Conflict | str]", module.search(inspection))


def aside(*paths: str) -> str:
    """Return the command that moves files to /root/aside, and numbers files of the same name."""
    return f"mkdir -p /root/aside && mv --backup=numbered -t /root/aside {shlex.join(paths)}"


def of_resource(
    role: DesiredRoleRequest, kind: ResourceKind, item: Resource, receipt: Receipt
) -> answer_types.ObstacleAnswer | None:
    """Return the obstacle to putting a resource, or None."""
    name = getattr(item, kind.key)
    reason = handler(kind.name).obstacle(item, ownership.record_of(receipt, kind.name, name))
    return answer(Conflict(role["role"], kind.singular, name, reason)) if reason else None


def with_commands(
    obstacles: list[answer_types.ObstacleAnswer], roles: Sequence[DesiredRoleRequest]
) -> list[answer_types.ObstacleAnswer]:
    """Return obstacles; for accounts and groups with the commands that renumber them."""
    if not any(obstacle["kind"] in ("account", "group") for obstacle in obstacles):
        return obstacles
    from hpcforge.node import account_numbers  # noqa: PLC0415 - a node compiles what it imports

    return list(account_numbers.with_commands(obstacles, roles))


def answer(conflict: Conflict) -> answer_types.ObstacleAnswer:
    """Return a conflict in the form of the answer."""
    role, kind, name, reason, commands = conflict
    return {"role": role, "kind": kind, "name": name, "why": reason, "commands": list(commands)}
