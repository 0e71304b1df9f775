"""Convert desired states and changes to requests for a node: see `hpcforge.node.requests`. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hpcforge.kinds.files import File
from hpcforge.node import requests
from hpcforge.node.verbs import with_kinds
from hpcforge.plan import desired
from hpcforge.plan.desired import by_kind
from hpcforge.plan.plan import Change, Owns, Removal, ResourceChange, UnitChange
from hpcforge.run.contents import Contents


def wanted(one: desired.Wanted, contents: Contents) -> requests.Wanted:
    """Return the desired state of a role for observation, with digests of file contents."""
    said: requests.Wanted = {
        "role": one.role,
        "packages": list(one.packages),
        "replaces": list(one.replaces),
        "units": [{"name": unit.name} for unit in one.units],
        "checks": [check(each) for each in one.checks],
        "opaque": {"digest": one.opaque.digest} if one.opaque else None,
        "trees": [{"path": tree.path} for tree in one.trees],
        "leaves": _leaves(one.leaves),
    }
    sent = (contents.sent(each) if isinstance(each, File) else {} for each in one.resources)
    items = ({**dataclasses.asdict(each), **more} for each, more in zip(one.resources, sent, strict=True))
    return with_kinds(said, by_kind(one.resources, items))


def check(one: desired.Check) -> requests.Check:
    """A check."""
    return {"name": one.name, "command": list(one.command), "stdout": one.stdout, "wait_s": one.wait_s}


def owns(one: Owns) -> requests.Owns:
    """All that a role has on a node."""
    said: requests.Owns = {
        "packages": list(one.packages),
        "units": list(one.units),
        "trees": list(one.trees),
        "on_remove": one.on_remove,
        "leaves": _leaves(one.leaves),
        "disrupts": one.disrupts,
    }
    return with_kinds(said, one.resources)


def less(one: Removal, guard: requests.Guard | None = None) -> requests.Less:
    """Return the removals of a role."""
    said: requests.Less = {"role": one.role, "wanted": one.wanted}
    if guard:
        said["guard"] = guard
    return with_kinds(said, owns(one.owns))


def put(role: str, changes: Sequence[ResourceChange], contents: Contents) -> requests.Work:
    """Resources of a role that are to be put, files with what is to be in them."""
    resources = [one.resource for one in changes]
    content = (contents.put(one.resource, one.found) if isinstance(one.resource, File) else {} for one in changes)
    items = ({**dataclasses.asdict(one), **more} for one, more in zip(resources, content, strict=True))
    said: requests.Work = {"role": role}
    return with_kinds(said, by_kind(resources, items))


def units(change: Change, *, act: bool, restarted: bool) -> list[requests.Unit]:
    """What is done to units; after a restart of the node it is seen that the others have come back, too."""
    done = [_unit(unit) for unit in change.units] if act else []
    names = {unit["name"] for unit in done}
    others = [name for name in change.owns.units if name not in names] if restarted else []
    seen: list[requests.Unit] = [{"name": name, "actions": []} for name in others]
    return [*done, *seen]


def _leaves(several: Sequence[desired.Leaves]) -> list[requests.Leaves]:
    return [{"path": one.path, "why": one.why} for one in several]


def _unit(unit: UnitChange) -> requests.Unit:
    said: requests.Unit = {"name": unit.name, "actions": list(unit.actions)}
    return {**said, "refresh": [list(command) for command in unit.refresh]} if unit.refresh else said
