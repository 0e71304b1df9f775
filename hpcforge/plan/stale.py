"""A plan that was made before, on nodes that may have changed since. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from hpcforge.plan.plan import Changes, Plan, Step


def stale_nodes(made: Plan, now: Plan) -> dict[str, str]:
    """Nodes for which the plan does not hold any more, and why. `now` is the plan that would be made at this moment."""
    found = {}
    for node in made.touched:
        if node in now.state.unreachable:
            continue  # it is unreachable, which the run itself says
        parts = _changed(made.state.basis.get(node, {}), now.state.basis.get(node, {}))
        if parts:
            found[node] = f"it changed after the plan was made: {', '.join(parts)}"
    leaving = {leaver.node: (leaver.removals, leaver.unknown) for leaver in now.changes.leaving}
    for leaver in made.changes.leaving:
        if leaver.unreachable is None and leaving.get(leaver.node) != (leaver.removals, leaver.unknown):
            found[leaver.node] = "it is no longer removed, or it changed since"
    return found


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [part for part in dict.fromkeys((*before, *after)) if before.get(part) != after.get(part)]


def drop_nodes(made: Plan, nodes: Collection[str], now: Plan) -> Plan:
    """Return the plan without these nodes, with present unreachable nodes, service states, jobs and clock errors."""
    lost = {node: reason for node, reason in now.state.unreachable.items() if node in made.nodes}
    gone = {*nodes, *lost, *now.state.refused}
    state = replace(
        made.state,
        unreachable=lost,
        in_service=now.state.in_service,
        jobs=now.state.jobs,
        asked_for=now.state.asked_for,
        too_large=now.state.too_large,
        clocks=tuple(clock for clock in now.state.clocks if clock.node in made.nodes),
        obstacles=tuple(obstacle for obstacle in now.state.obstacles if obstacle.node in made.nodes),
        down=tuple(worker for worker in now.state.down if worker.node in made.nodes),
    )
    policy = replace(
        made.policy,
        declared=tuple(worker for worker in made.policy.declared if worker.node not in lost),
        smoke=made.policy.smoke if not gone else now.policy.smoke,
    )
    changes = replace(_without(made.changes, gone), drains=now.changes.drains)
    return replace(made, changes=changes, state=state, policy=policy)


def _without(changes: Changes, nodes: Collection[str]) -> Changes:
    steps = [Step(s.role, {n: c for n, c in s.changes.items() if n not in nodes}) for s in changes.steps]
    return replace(
        changes,
        steps=tuple(step for step in steps if step.changes),
        first_contact=tuple(node for node in changes.first_contact if node not in nodes),
        removals={node: removals for node, removals in changes.removals.items() if node not in nodes},
        leaving=tuple(leaver for leaver in changes.leaving if leaver.node not in nodes),
        felt=tuple(node for node in changes.felt if node not in nodes),
    )
