"""Plans with a few fields set, whichever part they are in."""

from __future__ import annotations

import dataclasses
from typing import Any

from hpcforge.plan.plan import Changes, ClusterState, Plan, Policy

_EMPTY = {
    "changes": Changes(steps=(), first_contact=(), drains=(), texts={}),
    "state": ClusterState(unreachable={}, shortfalls=()),
    "policy": Policy(controller="head", declared=()),
}


def plan_with(cluster: str, nodes: tuple[str, ...], **values: Any) -> Plan:
    """Return a plan without changes, but for these fields of its parts."""
    return with_fields(Plan(cluster, nodes, **_EMPTY), **values)  # type: ignore[arg-type]


def with_fields(plan: Plan, **values: Any) -> Plan:
    """Return the plan with other values of fields of its parts."""
    parts = {}
    for name in _EMPTY:
        part = getattr(plan, name)
        own = {entry.name: values.pop(entry.name) for entry in dataclasses.fields(part) if entry.name in values}
        parts[name] = dataclasses.replace(part, **own)
    return dataclasses.replace(plan, **parts, **values)
