"""The inspection of a host before an apply, and its conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from hpcforge.kinds import TABLE, ResourceKind
from hpcforge.node.events import Json
from hpcforge.node.kinds import resources
from hpcforge.node.receipt import Receipt
from hpcforge.node.verbs import of_kind

if TYPE_CHECKING:
    from hpcforge.kinds.resource import Resource
    from hpcforge.node.requests import DesiredRoleRequest, WorkRequest


class Inspection(NamedTuple):
    """The input of a subject, in addition to the host itself."""

    roles: Sequence[DesiredRoleRequest]  # roles with changes; all if the host is inspected
    differences: Mapping[str, Json]  # by role, as in an answer to `observe`
    receipt: Receipt
    all_roles: Sequence[DesiredRoleRequest] = ()

    def packages(self) -> dict[str, str]:
        """Return the packages to be installed, each with its role."""
        return {name: role for role, difference in self.differences.items() for name in difference.get("packages", ())}

    def resources(self, role: DesiredRoleRequest) -> Iterator[tuple[ResourceKind, Resource]]:
        """Yield a role's resources to be changed, with their kind."""
        difference = self.differences.get(role["role"], {})
        for kind in TABLE:
            differs = {resource[kind.key] for resource in difference.get(kind.name, ())}
            yield from ((kind, item) for item in resources(role, kind) if getattr(item, kind.key) in differs)

    def units(self) -> dict[str, str]:
        """Return the units, each with its role; on a host that had no Python also the units that its roles own."""
        owners = {unit["name"]: role["role"] for role in self.roles for unit in role.get("units", ())}
        for role in self.roles:
            owned = cast("WorkRequest", role).get("owns")
            owners.update(dict.fromkeys(owned.get("units", ()) if owned else (), role["role"]))
        return owners

    def own_paths(self) -> set[str]:
        """Return the files and links that hpcforge writes or has written here."""
        kinds = ("files", "links", "downloads")
        written = {path for entry in self.receipt.roles.values() for kind in kinds for path in entry.get(kind, ())}
        return written | {item["path"] for role in self.roles for kind in kinds for item in of_kind(role, kind)}


class Conflict(NamedTuple):
    """An obstacle to an apply, with the reason, and the commands that remove it, to be run on the host as root."""

    role: str
    kind: str  # "package", "unit", "port", "file", "account" and such: what `name` names
    name: str
    why: str
    commands: tuple[str, ...] = ()
