"""Which role comes after which, and what roles as a whole say of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from hpcforge.plan.role import Role, RoleError

Needs = Mapping[str, tuple[str, ...]]  # role -> what it needs, in the words of role.yaml


def all_needs(roles: Sequence[Role]) -> Needs:
    """What each role says that it needs, and on its node every role that restarts one of its units.

    Raises `RoleError` where a role restarts a unit that no other role has.
    """
    found = {role.name: role.spec.needs for role in roles}
    for role in roles:
        for restart in role.spec.restarts:
            owners = [one for one in roles if one is not role and restart.name in {u.name for u in one.spec.units}]
            if not owners:
                raise role_error(role, f"restarts {restart.name!r}, but no other role has such a unit")
            for owner in owners:
                found[owner.name] = tuple(dict.fromkeys((*found[owner.name], role.name)))
    return found


def in_order(roles: Sequence[Role], needs: Needs) -> list[Role]:
    """The roles, each after what it needs. Raises `RoleError` where that cannot be."""
    by_name = {role.name: role for role in roles}
    graph = {name: sorted(need.partition("@")[0] for need in needs[name]) for name in by_name}
    for name, needed in graph.items():
        for need in needed:
            if need not in by_name:
                raise role_error(by_name[name], f"needs {need!r}, but there is no such role")
    try:
        return [by_name[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise role_error(by_name[error.args[1][0]], f"needs itself: {' -> '.join(error.args[1])}") from error


def the_scheduler(roles: Sequence[Role]) -> str | None:
    """The role that brings Slurm's controller. Raises `RoleError` where two do."""
    found = [role for role in roles if role.spec.scheduler]
    if len(found) > 1:
        raise role_error(found[1], f"brings the scheduler, and so does {found[0].name}")
    return found[0].name if found else None


def role_error(role: Role, message: str) -> RoleError:
    """What is wrong with a role's `role.yaml`."""
    return RoleError(role.folder / "role.yaml", message)
