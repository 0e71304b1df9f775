"""What a host had before that an apply would fail on, or that would make it useless: looked at before any change.

A subject is a module of this folder, named in `SUBJECTS`, with a function `search(inspection)` that yields `Conflict`s,
and texts as warnings. It changes nothing, takes at most 0.1 s of CPU on a healthy host, and ends by itself. One that
fails is reported and hides no other. Only what the roles at hand touch is an obstacle: a package on hold that no role
installs concerns the site alone.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from hpcforge.kinds import TABLE, ResourceKind
from hpcforge.node import ownership
from hpcforge.node.events import EventReporter, Json, explain
from hpcforge.node.kinds import handler, resources
from hpcforge.node.receipt import Receipt
from hpcforge.node.verbs import of_kind

if TYPE_CHECKING:
    from hpcforge.kinds.resource import Resource
    from hpcforge.node import answer_types
    from hpcforge.node.requests import DesiredRoleRequest, WorkRequest

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
ALWAYS = ("old_state", "shadowing_programs", "space")  # also on a host with nothing to change


class Inspection(NamedTuple):
    """What a subject may look at, besides the host itself."""

    roles: Sequence[DesiredRoleRequest]  # those with something to change; all where the host is inspected
    differences: Mapping[str, Json]  # by role, as in an answer to `observe`
    receipt: Receipt
    all_roles: Sequence[DesiredRoleRequest] = ()

    def packages(self) -> dict[str, str]:
        """Return the role by package that is to be installed."""
        return {name: role for role, difference in self.differences.items() for name in difference.get("packages", ())}

    def resources(self, role: DesiredRoleRequest) -> Iterator[tuple[ResourceKind, Resource]]:
        """Yield the resources of a role that are to be changed, with their kind."""
        difference = self.differences.get(role["role"], {})
        for kind in TABLE:
            differs = {resource[kind.key] for resource in difference.get(kind.name, ())}
            yield from ((kind, item) for item in resources(role, kind) if getattr(item, kind.key) in differs)

    def units(self) -> dict[str, str]:
        """Return the role by unit; of a host that had no Python, the units that its roles own."""
        found = {unit["name"]: role["role"] for role in self.roles for unit in role.get("units", ())}
        for role in self.roles:
            owned = cast("WorkRequest", role).get("owns")
            found.update(dict.fromkeys(owned.get("units", ()) if owned else (), role["role"]))
        return found

    def own_paths(self) -> set[str]:
        """Return the files and links that hpcforge writes here, or has written."""
        kinds = ("files", "links", "downloads")
        written = {path for entry in self.receipt.roles.values() for kind in kinds for path in entry.get(kind, ())}
        return written | {item["path"] for role in self.roles for kind in kinds for item in of_kind(role, kind)}


class Conflict(NamedTuple):
    """What an apply would fail on: what it is, why, and the commands that remove it, to be run on the host as root."""

    role: str
    kind: str  # "package", "unit", "port", "file", "account" and such: what `name` names
    name: str
    why: str
    commands: tuple[str, ...] = ()


def search(inspection: Inspection, report: EventReporter) -> Iterator[answer_types.ObstacleAnswer]:
    """Yield what each subject has to say of the host."""
    for subject in SUBJECTS if inspection.roles else ALWAYS:
        try:
            for conflict in importlib.import_module(f"hpcforge.node.obstacles.{subject}").search(inspection):
                if isinstance(conflict, str):
                    report.warning(conflict)
                else:
                    yield answer(conflict)
        except Exception as error:
            report.warning(f"whether {subject.replace('_', ' ')} would stop an apply is not known: {explain(error)}")


def aside(*paths: str) -> str:
    """Return the command that moves files out of the way, beside those of the same name that it moved before."""
    return f"mkdir -p /root/aside && mv --backup=numbered -t /root/aside {shlex.join(paths)}"


def of_resource(
    role: DesiredRoleRequest, kind: ResourceKind, item: Resource, receipt: Receipt
) -> answer_types.ObstacleAnswer | None:
    """Return why a resource cannot be put; None where it can."""
    name = getattr(item, kind.key)
    why = handler(kind.name).obstacle(item, ownership.known(receipt, kind.name, name))
    return answer(Conflict(role["role"], kind.singular, name, why)) if why else None


def with_commands(
    found: list[answer_types.ObstacleAnswer], roles: Sequence[DesiredRoleRequest]
) -> list[answer_types.ObstacleAnswer]:
    """Return obstacles, those of accounts and groups with the commands that renumber them."""
    if not any(obstacle["kind"] in ("account", "group") for obstacle in found):
        return found
    from hpcforge.node import account_numbers  # noqa: PLC0415 - a node compiles what it imports

    return list(account_numbers.with_commands(found, roles))


def answer(conflict: Conflict) -> answer_types.ObstacleAnswer:
    """Return a conflict as it is sent."""
    role, kind, name, why, commands = conflict
    return {"role": role, "kind": kind, "name": name, "why": why, "commands": list(commands)}
