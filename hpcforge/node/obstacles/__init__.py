"""What a host had before that an apply would fail on, or that would make it useless: looked at before any change.

A subject is a module of this folder, named in `SUBJECTS`, with a function `search(inspection)` that yields `Conflict`s.
It changes nothing, takes at most 0.1 s of CPU, and ends by itself. One that fails is reported and hides no other. Only
what the roles at hand touch is an obstacle: a package on hold that no role has to install is the site's own matter.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from hpcforge.node.events import EventReporter, Json, explain
from hpcforge.node.receipt import Receipt
from hpcforge.node.verbs import of_kind

if TYPE_CHECKING:
    from hpcforge.node import answer_types
    from hpcforge.node.requests import DesiredRoleRequest, WorkRequest

SUBJECTS: tuple[str, ...] = ("replaced_units", "shadowing_programs", "occupied_ports")


class Inspection(NamedTuple):
    """What a subject may look at, besides the host itself."""

    roles: Sequence[DesiredRoleRequest]  # those with something to change; all where the host is inspected
    differences: Mapping[str, Json]  # by role, as in an answer to `observe`
    receipt: Receipt

    def packages(self) -> dict[str, str]:
        """Return the role by package that is to be installed."""
        return {name: role for role, difference in self.differences.items() for name in difference.get("packages", ())}

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
    for subject in SUBJECTS if inspection.roles else ():
        try:
            for conflict in importlib.import_module(f"hpcforge.node.obstacles.{subject}").search(inspection):
                yield answer(conflict)
        except Exception as error:
            report.warning(f"whether {subject.replace('_', ' ')} would stop an apply is not known: {explain(error)}")


def aside(*paths: str) -> str:
    """Return the command that moves files out of the way, beside those of the same name that it moved before."""
    return f"mkdir -p /root/aside && mv --backup=numbered -t /root/aside {shlex.join(paths)}"


def answer(conflict: Conflict) -> answer_types.ObstacleAnswer:
    """Return a conflict as it is sent."""
    role, kind, name, why, commands = conflict
    return {"role": role, "kind": kind, "name": name, "why": why, "commands": list(commands)}
