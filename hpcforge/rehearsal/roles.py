"""Roles that a rehearsal leaves out, since they need of a machine what its nodes do not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from hpcforge.cluster.model import Cluster
from hpcforge.cluster.variables import runs
from hpcforge.plan.render import Expression
from hpcforge.plan.role import Role
from hpcforge.rehearsal.stand_ins import StandIn

NAME = "roles left out"
_NOWHERE = Expression("false")


def rehearsed_roles(
    roles: Sequence[Role], *, boots: bool, away: Mapping[str, str] = MappingProxyType({})
) -> tuple[Role, ...]:
    """The roles as a rehearsal has them: those that it leaves out run nowhere.

    `boots`: its nodes have kernels of their own; `away`: roles whose packages are out of reach, and why.
    """
    return tuple(
        replace(role, spec=role.spec.model_copy(update={"on": _NOWHERE})) if _why_not(role, boots, away) else role
        for role in roles
    )


def left_out(
    cluster: Cluster, roles: Sequence[Role], *, boots: bool, away: Mapping[str, str] = MappingProxyType({})
) -> StandIn | None:
    """Return the stand-in for skipped roles that the cluster would run; None if there are none."""
    out = [role for role in roles if _why_not(role, boots, away) and runs(role.name, role.spec.on, cluster)]
    if not out:
        return None
    names = ", ".join(role.name for role in out)
    why = "; ".join(f"{role.name}: {_why_not(role, boots, away)}" for role in out)
    return StandIn(NAME, f"roles {names}", f"these roles are left out: {why}")


def _why_not(role: Role, boots: bool, away: Mapping[str, str]) -> str:
    """Why a rehearsal leaves it out; "" where it does not."""
    return role.spec.not_rehearsed or ("" if boots else role.spec.not_in_containers) or away.get(role.name, "")
