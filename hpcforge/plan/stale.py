"""An earlier plan, on nodes that may have changed since. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from hpcforge.plan.plan import Changes, Plan, Step


def stale_nodes(earlier: Plan, present: Plan) -> dict[str, str]:
    """Return the nodes for which the earlier plan is no longer valid, with the reason. `present` is a new plan."""
    reasons = {}
    for node in earlier.touched:
        if node in present.state.unreachable:
            continue  # the run itself reports it as unreachable
        parts = _changed(earlier.state.basis.get(node, {}), present.state.basis.get(node, {}))
        if parts:
            reasons[node] = f"it changed after the plan was made: {', '.join(parts)}"
    leaving = {leaver.node: (leaver.removals, leaver.unknown) for leaver in present.changes.leaving}
    for leaver in earlier.changes.leaving:
        if leaver.unreachable is None and leaving.get(leaver.node) != (leaver.removals, leaver.unknown):
            reasons[leaver.node] = "it is no longer removed, or it changed since"
    return reasons


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [part for part in dict.fromkeys((*before, *after)) if before.get(part) != after.get(part)]


def drop_nodes(earlier: Plan, nodes: Collection[str], present: Plan) -> Plan:
    """Return the earlier plan without these nodes, with the present unreachable nodes, services, jobs and clocks."""
    lost = {node: reason for node, reason in present.state.unreachable.items() if node in earlier.nodes}
    dropped = {*nodes, *lost, *present.state.refused}
    state = replace(
        earlier.state,
        unreachable=lost,
        in_service=present.state.in_service,
        jobs=present.state.jobs,
        asked_for=present.state.asked_for,
        too_large=present.state.too_large,
        clocks=tuple(clock for clock in present.state.clocks if clock.node in earlier.nodes),
        obstacles=tuple(obstacle for obstacle in present.state.obstacles if obstacle.node in earlier.nodes),
        down=tuple(worker for worker in present.state.down if worker.node in earlier.nodes),
    )
    policy = replace(
        earlier.policy,
        declared=tuple(worker for worker in earlier.policy.declared if worker.node not in lost),
        smoke=earlier.policy.smoke if not dropped else present.policy.smoke,
    )
    changes = replace(_without(earlier.changes, dropped), drains=present.changes.drains)
    return replace(earlier, changes=changes, state=state, policy=policy)


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
