"""Make the rehearsed cluster from a cluster and a lab, rule by rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from hpcforge.cluster.model import Cluster
from hpcforge.cluster.variables import runs
from hpcforge.plan.roles.render import Expression
from hpcforge.plan.roles.role import Role
from hpcforge.rehearsal.lab_facts import LabFacts


@dataclass(frozen=True)
class StandIn:
    """A substitute in a rehearsal: a word or two for a summary, and a sentence that describes it."""

    name: str
    short: str
    sentence: str


@dataclass(frozen=True)
class StandInRule:
    """One kind of thing that a lab cannot have.

    `says` describes the stand-in, None if the cluster needs none, and is called before `change`, which returns the
    cluster with the stand-in. `of_labs`: the rule is also for blueprints made for a lab.
    """

    name: str
    says: Callable[[Cluster, LabFacts], tuple[str, str] | None]  # as in `StandIn`
    change: Callable[[Cluster, LabFacts], Cluster]
    of_labs: bool = False


@dataclass(frozen=True)
class AppliedRule:
    """A rule that was applied, and the cluster after it."""

    stand_in: StandIn
    cluster: Cluster


def steps(cluster: Cluster, lab: LabFacts, rules: Sequence[StandInRule]) -> Iterator[AppliedRule]:
    """Apply the rules, one after the other; skip those without a stand-in."""
    for rule in rules:
        statement = rule.says(cluster, lab)
        if statement is not None:
            cluster = rule.change(cluster, lab)
            yield AppliedRule(StandIn(rule.name, *statement), cluster)


def rehearsed(cluster: Cluster, lab: LabFacts, rules: Sequence[StandInRule]) -> tuple[Cluster, tuple[StandIn, ...]]:
    """Return the cluster for the lab, and the stand-ins."""
    applied = tuple(steps(cluster, lab, rules))
    return (applied[-1].cluster if applied else cluster), tuple(step.stand_in for step in applied)


# Roles that a rehearsal skips, since its nodes lack the hardware for them.


NAME = "roles left out"
_NOWHERE = Expression("false")


def rehearsed_roles(
    roles: Sequence[Role], *, boots: bool, away: Mapping[str, str] = MappingProxyType({})
) -> tuple[Role, ...]:
    """Return the roles of a rehearsal: the skipped ones run nowhere.

    `boots`: its nodes have kernels of their own; `away`: roles with unreachable packages, and the reasons.
    """
    return tuple(
        replace(role, spec=role.spec.model_copy(update={"on": _NOWHERE})) if _skip_reason(role, boots, away) else role
        for role in roles
    )


def left_out(
    cluster: Cluster, roles: Sequence[Role], *, boots: bool, away: Mapping[str, str] = MappingProxyType({})
) -> StandIn | None:
    """Return the stand-in for skipped roles that the cluster would run; None if there are none."""
    out = [role for role in roles if _skip_reason(role, boots, away) and runs(role.name, role.spec.on, cluster)]
    if not out:
        return None
    names = ", ".join(role.name for role in out)
    reasons = "; ".join(f"{role.name}: {_skip_reason(role, boots, away)}" for role in out)
    return StandIn(NAME, f"roles {names}", f"these roles are left out: {reasons}")


def _skip_reason(role: Role, boots: bool, away: Mapping[str, str]) -> str:
    """Return why a rehearsal skips a role; "" if it does not."""
    return role.spec.not_rehearsed or ("" if boots else role.spec.not_in_containers) or away.get(role.name, "")
