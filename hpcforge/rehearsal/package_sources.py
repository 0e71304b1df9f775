"""Package sources of roles in a rehearsal: those through the lab's proxy, and roles with unreachable sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from hpcforge.cluster.model import Cluster
from hpcforge.cluster.variables import runs
from hpcforge.kinds.sources import PackageSource
from hpcforge.plan.desired import Desired
from hpcforge.plan.roles.role import Role
from hpcforge.rehearsal.stand_ins import StandIn

Origins = Mapping[str, tuple[str, ...]]  # by role, where its packages come from: `https://HOST` or `https://HOST:PORT`
Reached = Mapping[str, bool]  # by origin, whether the machine of the rehearsal reaches it

_ORIGIN = re.compile(
    r"(https?://)(?:[^/@]*@)?((?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?)(?:/|$)"
)


def origins(
    roles: Sequence[Role], cluster: Cluster, compiled: Callable[[Sequence[Role], Cluster], Desired]
) -> dict[str, tuple[str, ...]]:
    """Return the origins of each role that has package sources on some node; files on nodes have none."""
    if not any(role.spec.of(PackageSource.kind) and runs(role.name, role.spec.on, cluster) for role in roles):
        return {}
    by_role: dict[str, dict[str, None]] = {}
    for several in compiled(roles, cluster).nodes.values():
        for supplier in several:
            uris = (uri for source in supplier.of(PackageSource) for uri in source.uris)
            role_origins = [f"{match[1]}{match[2]}" for match in map(_ORIGIN.match, uris) if match]
            if role_origins:
                by_role.setdefault(supplier.role, {}).update(dict.fromkeys(role_origins))
    return {role: tuple(several) for role, several in by_role.items()}


def every(by_role: Origins) -> tuple[str, ...]:
    """Return all origins, each once."""
    return tuple(dict.fromkeys(origin for several in by_role.values() for origin in several))


def out_of_reach(by_role: Origins, reached: Reached | None) -> dict[str, str]:
    """Return the roles with packages that a rehearsal cannot get, and the reasons. `reached` None: it is not up, and
    all sources count as reachable.

    Plain http does not need the lab's proxy, so an untried source is reachable.
    """
    if reached is None:
        return {}
    reasons = {}
    for role, several in by_role.items():
        away = [supplier for supplier in several if reached.get(supplier) is False]
        unknown = [supplier for supplier in several if supplier not in reached and supplier.startswith("https:")]
        if away:
            reasons[role] = f"its packages come from {', '.join(away)}, which this machine cannot reach"
        elif unknown:
            reasons[role] = f"its packages come from {', '.join(unknown)}, which `rehearse up` has not tried yet"
    return reasons


def passed(by_role: Origins, reached: Reached | None) -> StandIn | None:
    """Return the stand-in for sources that nodes fetch over TLS through the lab's proxy; None without any."""
    away = out_of_reach(by_role, reached)
    through = every({role: several for role, several in by_role.items() if role not in away})
    secure = [origin for origin in through if origin.startswith("https:")]
    if not secure:
        return None
    sentence = f"{', '.join(secure)}: nodes fetch from there through this machine's proxy, which passes TLS as it is"
    return StandIn("package sources", "", sentence)
