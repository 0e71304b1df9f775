"""Convert desired states and changes to requests for a node: see `hpcforge.node.requests`. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hpcforge.kinds.files import File
from hpcforge.node import requests
from hpcforge.node.verbs import with_kinds
from hpcforge.plan import desired
from hpcforge.plan.desired import by_kind
from hpcforge.plan.plan import Change, OwnedResources, Removal, ResourceChange, UnitChange
from hpcforge.secrets.secret_files import Contents


def wanted(role: desired.DesiredRole, contents: Contents) -> requests.DesiredRoleRequest:
    """Return the desired state of a role for observation, with digests of file contents."""
    request: requests.DesiredRoleRequest = {
        "role": role.role,
        "packages": list(role.packages),
        "replaces": list(role.replaces),
        "programs": list(role.programs),
        "listens": listens(role.listens),
        "units": [{"name": unit.name} for unit in role.units],
        "checks": [check(role_check) for role_check in role.checks],
        "opaque": {"digest": role.opaque.digest} if role.opaque else None,
        "trees": [{"path": tree.path} for tree in role.trees],
        "leaves": _leaves(role.leaves),
        "old_state": old_state(role.old_state),
    }
    sent = (contents.sent(resource) if isinstance(resource, File) else {} for resource in role.resources)
    items = (
        {**dataclasses.asdict(resource), **content} for resource, content in zip(role.resources, sent, strict=True)
    )
    return with_kinds(request, by_kind(role.resources, items))


def listens(ports: Sequence[desired.Listen]) -> list[requests.ListenRequest]:
    """Return the ports that daemons of a role listen on."""
    return [{"port": listen.port, "protocol": listen.protocol, "address": listen.address} for listen in ports]


def check(check: desired.Check) -> requests.CheckRequest:
    return {"name": check.name, "command": list(check.command), "stdout": check.stdout, "wait_s": check.wait_s}


def owns(ownership: OwnedResources) -> requests.OwnedRequest:
    """Return the resources of a role on a node."""
    request: requests.OwnedRequest = {
        "packages": list(ownership.packages),
        "units": list(ownership.units),
        "trees": list(ownership.trees),
        "on_remove": ownership.on_remove,
        "leaves": _leaves(ownership.leaves),
        "disrupts": ownership.disrupts,
    }
    return with_kinds(request, ownership.resources)


def less(removal: Removal, guard: requests.GuardRequest | None = None) -> requests.LessRequest:
    """Return the removals of a role."""
    request: requests.LessRequest = {"role": removal.role, "wanted": removal.wanted}
    if guard:
        request["guard"] = guard
    return with_kinds(request, owns(removal.owns))


def put(role: str, changes: Sequence[ResourceChange], contents: Contents) -> requests.WorkRequest:
    """Return the changes of a role's resources; files have their content."""
    resources = [change.resource for change in changes]
    content = (
        contents.put(change.resource, change.found) if isinstance(change.resource, File) else {} for change in changes
    )
    items = ({**dataclasses.asdict(resource), **text} for resource, text in zip(resources, content, strict=True))
    request: requests.WorkRequest = {"role": role}
    return with_kinds(request, by_kind(resources, items))


def units(change: Change, *, act: bool, restarted: bool) -> list[requests.UnitRequest]:
    """Build the requests for units; after a restart of the node, also check that the other units are back."""
    changed = [_unit(unit) for unit in change.units] if act else []
    names = {unit["name"] for unit in changed}
    others = [name for name in change.owns.units if name not in names] if restarted else []
    observed: list[requests.UnitRequest] = [{"name": name, "actions": []} for name in others]
    return [*changed, *observed]


def old_state(states: Sequence[desired.OldState]) -> list[requests.OldStateRequest]:
    """Build the requests for possible leftovers of another cluster."""
    return [
        {
            "path": state.path,
            "cluster": state.cluster,
            "why": state.why,
            "name_in": state.name_in,
            "beside": list(state.beside),
            "unit": state.unit,
        }
        for state in states
    ]


def _leaves(paths: Sequence[desired.KeptPath]) -> list[requests.KeptPathRequest]:
    return [{"path": leftover.path, "why": leftover.why} for leftover in paths]


def _unit(unit: UnitChange) -> requests.UnitRequest:
    request: requests.UnitRequest = {"name": unit.name, "actions": list(unit.actions)}
    return {**request, "refresh": [list(command) for command in unit.refresh]} if unit.refresh else request
