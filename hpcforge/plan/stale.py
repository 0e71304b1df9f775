"""A plan that was made before, on nodes that may have changed since. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from hpcforge.plan.plan import Plan, Step


def stale_nodes(made: Plan, now: Plan) -> dict[str, str]:
    """Nodes for which the plan does not hold any more, and why. `now` is the plan that would be made at this moment."""
    found = {}
    for node in made.touched:
        if node in now.unreachable:
            continue  # it is unreachable, which the run itself says
        parts = _changed(made.basis.get(node, {}), now.basis.get(node, {}))
        if parts:
            found[node] = f"it changed after the plan was made: {', '.join(parts)}"
    leaving = {leaver.node: (leaver.removals, leaver.unknown) for leaver in now.leaving}
    for leaver in made.leaving:
        if leaver.unreachable is None and leaving.get(leaver.node) != (leaver.removals, leaver.unknown):
            found[leaver.node] = "it is no longer removed, or it changed since"
    return found


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [part for part in dict.fromkeys((*before, *after)) if before.get(part) != after.get(part)]


def drop_nodes(made: Plan, nodes: Collection[str], now: Plan) -> Plan:
    """Return the plan without these nodes, with present unreachable nodes, service states, jobs and clock errors."""
    lost = {node: why for node, why in now.unreachable.items() if node in made.nodes}
    gone = {*nodes, *lost, *now.refused}
    steps = [Step(s.role, {n: c for n, c in s.changes.items() if n not in gone}) for s in made.steps]
    return replace(
        made,
        steps=tuple(step for step in steps if step.changes),
        first_contact=tuple(node for node in made.first_contact if node not in gone),
        removals={node: removals for node, removals in made.removals.items() if node not in gone},
        leaving=tuple(leaver for leaver in made.leaving if leaver.node not in gone),
        unreachable=lost,
        declared=tuple(worker for worker in made.declared if worker.node not in lost),
        in_service=now.in_service,
        jobs=now.jobs,
        asked_for=now.asked_for,
        too_large=now.too_large,
        drains=now.drains,
        felt=tuple(node for node in made.felt if node not in gone),
        smoke=made.smoke if not gone else now.smoke,
        clocks=tuple(clock for clock in now.clocks if clock.node in made.nodes),
        obstacles=tuple(obstacle for obstacle in now.obstacles if obstacle.node in made.nodes),
        down=tuple(worker for worker in now.down if worker.node in made.nodes),
    )
