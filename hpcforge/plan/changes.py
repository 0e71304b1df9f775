"""The changes on one node, role by role: desired and observed state compared, with reason and disruption."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from hpcforge.kinds import KINDS
from hpcforge.kinds.files import File
from hpcforge.kinds.resource import ActualState
from hpcforge.plan.desired import DesiredRole, Disruption, KeptPath, OnRemove, Tree, Unit
from hpcforge.plan.observation import Difference, Observation, nothing_there
from hpcforge.plan.plan import (
    OLD_STATE,
    Change,
    OpaqueChange,
    OwnedResources,
    PackageRemoval,
    Reason,
    RebootCause,
    ResourceChange,
    UnitChange,
    worst,
)
from hpcforge.wire_types import Action


@dataclass(frozen=True)
class Scope:
    """The scope of a plan. `only`: these roles; `forced`: roles that run again without a difference."""

    only: frozenset[str] | None = None
    forced: frozenset[str] = frozenset()
    take_over: bool = False  # rename old state of another cluster


EVERYTHING = Scope()


def node_changes(
    roles: Sequence[DesiredRole], observation: Observation, bare: Bare
) -> Iterator[tuple[DesiredRole, Change]]:
    """Yield the roles with a change. Roles restart units of others on their node."""
    scope = bare.scope
    selected = [role for role in roles if scope.only is None or role.role in scope.only]
    if not observation.python and observation.receipt is None:
        yield from (entry for role in selected if (entry := bare.entry(role))[1])
        return
    differs = {
        role.role: observation.differs.get(role.role, {}) if observation.python else nothing_there(role)
        for role in selected
    }
    changed = _Changed(
        {name for difference in differs.values() for _, name in _differing(difference)}, bare.texts, _disturbers(roles)
    )
    for role in selected:
        change = _judged_change(role, differs[role.role], changed, observation, scope)
        if change:
            yield role, change


@dataclass(frozen=True)
class _Changed:
    """The differences of a node, by name, and the desired texts, by digest."""

    names: Set[str]
    texts: Mapping[str, str]
    disturbers: Mapping[str, Sequence[str]] = field(default_factory=dict)  # unit -> paths of other roles

    def only_in(self, lines: str, change: ResourceChange) -> bool:
        """Return True if a file certainly changes only in lines that match an expression."""
        file, old = change.resource, change.found.get("text")
        new = self.texts.get(file.text or "") if isinstance(file, File) and not file.holds else None
        if old is None or new is None:
            return False  # the line of a secret in the old text is unknown
        others = ([line for line in text.splitlines() if not re.fullmatch(lines, line)] for text in (old, new))
        return next(others) == next(others)


def _disturbers(roles: Iterable[DesiredRole]) -> dict[str, list[str]]:
    """Return, by unit, the paths whose change restarts a unit of another role."""
    paths: dict[str, list[str]] = {}
    for restart in (restart for role in roles for restart in role.restarts):
        paths.setdefault(restart.unit, []).extend(restart.watches)
    return paths


_NOTHING_CHANGED = _Changed(frozenset(), {})
_NEW = Observation("", python=False)


@dataclass(frozen=True)
class Bare:
    """The changes on new nodes, made once for all nodes with the same desired role."""

    texts: Mapping[str, str]
    scope: Scope
    entries: dict[int, tuple[DesiredRole, Change]] = field(default_factory=dict)  # by id of the desired role

    def entry(self, role: DesiredRole) -> tuple[DesiredRole, Change]:
        """Return a role with its change, which is false where nothing changes."""
        entry = self.entries.get(id(role))
        if entry is None:
            # every unit starts, regardless of the paths it watches
            change = _judged_change(role, nothing_there(role), _NOTHING_CHANGED, _NEW, self.scope)
            entry = self.entries[id(role)] = (role, change)
        return entry


def _judged_change(
    role: DesiredRole, difference: Difference, changed: _Changed, observation: Observation, scope: Scope
) -> Change:
    """Return the change, with reason and disruption; false where nothing changes."""
    forced = role.role in scope.forced
    change = _change(role, difference, changed, forced)
    if scope.take_over:
        old = (
            obstacle["name"]
            for obstacle in observation.obstacles
            if (obstacle["role"], obstacle["kind"]) == (role.role, OLD_STATE)
        )
        change = replace(change, renames=tuple(old))
    unnoted = _unnoted(role, observation)
    if not change and not unnoted:
        return change
    does = _disruptions(role, change)
    return replace(
        change,
        noted=not unnoted,
        reason=_reason(role.role, change, observation, forced, unnoted),
        disruption=worst(does.values()) if observation.configured else "none",
        reboot=tuple(part for part, disruption in does.items() if disruption == "reboot"),
    )


def _unnoted(role: DesiredRole, observation: Observation) -> bool:
    return role.role in ((observation.receipt or {}).get("unowned") or ())


def _change(role: DesiredRole, difference: Difference, changed: _Changed, forced: bool) -> Change:
    unit_states = {unit["name"]: unit for unit in difference.get("units", ())}
    due = bool(difference.get("reboot"))  # checks mean nothing before the restart
    failed = () if due else tuple((check["name"], str(check["detail"])) for check in difference.get("checks", ()))
    packages = _select(role.packages, difference.get("packages", ()))
    resources = _resources(role, difference)
    opaque = _opaque(role, difference, failed, changed.names, forced)
    own_work = bool(packages or resources or unit_states or opaque)
    cause = "forced" if forced else None if own_work or not failed else f"check failed: {failed[0][0]}"
    units = [_unit(unit, unit_states.get(unit.name), resources, changed, cause) for unit in role.units]
    return Change(
        needs=role.needs,
        packages=packages,
        removes=tuple(
            PackageRemoval(removal["name"], tuple(removal["by"])) for removal in difference.get("removes", ())
        ),
        unforeseen=_select(role.packages, difference.get("unforeseen", ())),
        resources=resources,
        units=tuple(unit for unit in units if unit is not None),
        opaque=opaque,
        failed_checks=() if own_work else failed,
        checks=role.checks,
        programs=role.programs,
        listens=role.listens,
        owns=_owns(role),
        old_state=role.old_state,
        guard=role.guard,
        shape=role.shape,
        reboot=("due",) if due else (),
    )


def _owns(role: DesiredRole) -> OwnedResources:
    names = tuple([(resource.kind, resource.named) for resource in role.resources])
    disrupts = role.disrupts.get("opaque", "none") if role.trees else "none"
    return _owned(names, role.packages, role.units, role.trees, role.on_remove, role.leaves, disrupts)


@lru_cache(maxsize=1024)  # nodes of a cluster own the same, though their contents differ
def _owned(
    names: tuple[tuple[str, str], ...],
    packages: tuple[str, ...],
    units: tuple[Unit, ...],
    trees: tuple[Tree, ...],
    on_remove: OnRemove,
    leaves: tuple[KeptPath, ...],
    disrupts: Disruption,
) -> OwnedResources:
    kinds = dict.fromkeys(kind for kind, _ in names)
    return OwnedResources(
        packages=packages,
        resources={kind: tuple([name for its_kind, name in names if its_kind == kind]) for kind in kinds},
        units=tuple([unit.name for unit in units]),
        trees=tuple([tree.path for tree in trees]),
        on_remove=on_remove,
        leaves=leaves,
        disrupts=disrupts,
    )


def _reason(role: str, change: Change, observation: Observation, forced: bool, unnoted: bool) -> Reason:
    """Return the most important reason."""
    if not observation.configured:
        return "new node"
    if forced:
        return "forced"
    if change.failed_checks:
        return "check failed"
    if any(reversal["role"] == role for reversal in observation.reverted):
        return "reverted"
    if any(resource_change.resource.drifted(resource_change.found) for resource_change in change.resources):
        return "drifted"
    due = any(unit.reason.endswith((" changed", "was cut off")) for unit in change.units)
    if (
        change.opaque
        or due
        or any(resource_change.resource.input_changed(resource_change.found) for resource_change in change.resources)
    ):
        return "input changed"
    if change.reboot:
        return "reboot pending"
    if change.packages or change.resources or change.units or change.renames:
        return "input changed" if unnoted else "drifted"
    return "to be noted"


def _disruptions(role: DesiredRole, change: Change) -> dict[RebootCause, Disruption]:
    """Return the disruption of each changed part; starting or reloading a unit disrupts nothing."""
    does: dict[RebootCause, Disruption] = dict.fromkeys(change.reboot, "reboot")
    if change.packages:
        does["packages"] = role.disrupts.get("packages", "none")
    for resource_change in change.resources:
        does[resource_change.resource.kind] = role.disrupts.get(resource_change.resource.kind, "none")
    if any(action == "restart" for unit in change.units for action in unit.actions):
        does["units"] = role.disrupts.get("units", "restart")
    if change.opaque:
        does["opaque"] = role.disrupts.get("opaque", "none")
    return does


def _select(names: tuple[str, ...], missing: Iterable[Any]) -> tuple[str, ...]:
    absent = set(missing)
    return names if absent.issuperset(names) else tuple(name for name in names if name in absent)


def _differing(difference: Difference) -> dict[tuple[str, str], ActualState]:
    """Return the observed state of each resource that differs from the desired one, by kind and name."""
    return {
        (name, resource[KINDS[name].key]): resource
        for name in difference.keys() & KINDS.keys()
        for resource in difference[name]
    }


def _resources(role: DesiredRole, difference: Difference) -> tuple[ResourceChange, ...]:
    states = _differing(difference)
    places = [(resource, (resource.kind, resource.named)) for resource in role.resources]
    return tuple([ResourceChange(resource, states[place]) for resource, place in places if place in states])


def _unit(
    unit: Unit,
    state: Mapping[str, Any] | None,
    own: Sequence[ResourceChange],
    changed: _Changed,
    cause: str | None,
) -> UnitChange | None:
    """Return the change of a unit with its reason; `own` are the changes of its role."""
    actions: list[Action] = []
    reasons = []
    if state is not None and not state["enabled"]:
        actions.append("enable")
        reasons.append("not enabled")
    disturbing = [path for path in changed.disturbers.get(unit.name, ()) if path in changed.names]
    touched = [*(path for path in unit.watches if path in changed.names), *disturbing]
    if state is not None and state["active"] != "active":
        actions.append("restart" if state["active"] == "activating" else "start")
        reasons.append(str(state["active"]))
    elif touched:
        more = state is not None and state["restart_pending"]  # from an earlier run, with unknown files
        rereads = not unit.rereads or (not more and set(touched) <= _reread(unit, own, changed))
        rereads = rereads and not disturbing
        actions.append("refresh" if unit.refresh and rereads else "restart")
        reasons.append(f"{', '.join(touched)} changed")
    elif state is not None and state["restart_pending"]:
        actions.append("restart")  # the changed files are no longer known
        reasons.append("an earlier run changed its files and was interrupted")
    elif cause is not None:
        actions.append("restart")
        reasons.append(cause)
    if not actions:
        return None
    return _unit_change(unit.name, tuple(actions), "; ".join(reasons), unit.refresh if "refresh" in actions else ())


_unit_change = lru_cache(maxsize=1024)(UnitChange)  # nodes of a cluster have the same


def _reread(unit: Unit, own: Sequence[ResourceChange], changed: _Changed) -> set[str]:
    """Return the files that need only a refresh if they change."""
    lines = {reread.path: reread.lines for reread in unit.rereads}
    changes = {change.resource.named: change for change in own}
    return {
        path
        for path, expression in lines.items()
        if expression is None or (path in changes and changed.only_in(expression, changes[path]))
    }


def _opaque(
    role: DesiredRole, difference: Difference, failed: tuple[tuple[str, str], ...], changed: Set[str], forced: bool
) -> OpaqueChange | None:
    if role.opaque is None:
        return None
    old = difference.get("opaque")
    if old is not None:
        reasons = {None: "first run", "": "an earlier run did not finish it"}
        return OpaqueChange(role.opaque, reasons.get(old["digest"], "its code or inputs changed"))
    if forced:
        return OpaqueChange(role.opaque, "forced", repeats=True)
    if touched := [path for path in role.opaque.rerun_on if path in changed]:
        return OpaqueChange(role.opaque, f"{', '.join(touched)} changed", repeats=True)
    return OpaqueChange(role.opaque, f"check failed: {failed[0][0]}", repeats=True) if failed else None
