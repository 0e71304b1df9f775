"""The order of roles, and checks across all roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from hpcforge.blueprint.diagnostics import did_you_mean
from hpcforge.plan.role import Role
from hpcforge.plan.role_spec import RestartSpec

Needs = Mapping[str, tuple[str, ...]]  # role -> what it needs, in the words of role.yaml


def all_needs(roles: Sequence[Role]) -> Needs:
    """What each role says that it needs, and on its node every role that restarts one of its units.

    One with artifacts needs what serves them. Raises `RoleError` where nothing does, or a role restarts a unit that no
    other role has.
    """
    depot = the_depot(roles)
    found = {role.name: role.spec.needs for role in roles}
    for role in roles:
        if role.spec.artifacts and depot is None:
            raise role.wrong("has artifacts, but no role offers a service with `serves_artifacts`", ("artifacts",))
        if role.spec.artifacts and depot is not None:
            found[role.name] = tuple(dict.fromkeys((*found[role.name], f"{depot.name}@cluster")))
        for restart in role.spec.restarts:
            owners = [owner for owner in roles if owner is not role and _owns(owner, restart, role)]
            if not owners and "{{" not in restart.name:
                raise role.wrong(f"restarts {restart.name!r}, but no other role has such a unit", ("restarts",))
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
                raise by_name[name].wrong(
                    f"needs {need!r}, but there is no such role", ("needs",), did_you_mean(need, by_name)
                )
    try:
        return [by_name[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise by_name[error.args[1][0]].wrong(f"needs itself: {' -> '.join(error.args[1])}", ("needs",)) from error


def the_scheduler(roles: Sequence[Role]) -> str | None:
    """The role that brings Slurm's controller. Raises `RoleError` where two do."""
    found = [role for role in roles if role.spec.scheduler]
    if len(found) > 1:
        raise found[1].wrong(f"provides the scheduler, as does {found[0].name}", ("scheduler",))
    return found[0].name if found else None


def the_depot(roles: Sequence[Role]) -> Role | None:
    """The role that serves artifacts. Raises `RoleError` where two do."""
    found = [role for role in roles if any(offer.serves_artifacts for offer in role.spec.services.values())]
    if len(found) > 1:
        raise found[1].wrong(f"serves artifacts, as does {found[0].name}", ("services",))
    return found[0] if found else None


def _owns(owner: Role, restart: RestartSpec, role: Role) -> bool:
    """Return whether a role has the unit; one whose name varies is of a role that contributes to the one restarting."""
    if "{{" in restart.name:
        return not role.spec.accepts.keys().isdisjoint(owner.spec.contributes)
    return restart.name in {unit.name for unit in owner.spec.units}
