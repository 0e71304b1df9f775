"""Roles that a rehearsal leaves out, since they need of a machine what a container does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpcforge.cluster.model import Cluster
from hpcforge.cluster.variables import runs
from hpcforge.plan.render import Expression
from hpcforge.plan.role import Role
from hpcforge.rehearsal.stand_ins import StandIn

NAME = "roles left out"
_NOWHERE = Expression("false")


def rehearsed_roles(roles: Sequence[Role]) -> tuple[Role, ...]:
    """The roles as a rehearsal has them: those that say `not_rehearsed` run nowhere."""
    return tuple(
        replace(role, spec=role.spec.model_copy(update={"on": _NOWHERE})) if role.spec.not_rehearsed else role
        for role in roles
    )


def left_out(cluster: Cluster, roles: Sequence[Role]) -> StandIn | None:
    """What to say of those that would run; None where there are none."""
    out = [role for role in roles if role.spec.not_rehearsed and runs(role.name, role.spec.on, cluster)]
    if not out:
        return None
    names = ", ".join(role.name for role in out)
    why = "; ".join(f"{role.name}: {role.spec.not_rehearsed}" for role in out)
    return StandIn(NAME, f"roles {names}", f"these roles are left out: {why}")
