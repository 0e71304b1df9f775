"""The changes on one node, role by role: desired and observed state compared, with reason and disruption."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from hpcforge.kinds import KINDS
from hpcforge.kinds.files import File
from hpcforge.kinds.resource import ActualState
from hpcforge.plan.desired import DesiredRole, Disruption, RoleNeed, Unit, by_kind
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
    take_over: bool = False  # what another cluster left is kept aside


EVERYTHING = Scope()


def node_changes(roles: Sequence[DesiredRole], seen: Observation, bare: Bare) -> Iterator[tuple[DesiredRole, Change]]:
    """Yield the roles with a change. Roles restart units of others on their node."""
    scope = bare.scope
    wanted_roles = [wanted for wanted in roles if scope.only is None or wanted.role in scope.only]
    if not seen.python and seen.receipt is None:
        own: dict[str, RoleNeed] = {}
        yield from ((wanted, change.on(seen.node, own)) for wanted in wanted_roles if (change := bare.change(wanted)))
        return
    differs = {w.role: seen.differs.get(w.role, {}) if seen.python else nothing_there(w) for w in wanted_roles}
    changed = _Changed(
        {name for difference in differs.values() for _, name in _differing(difference)}, bare.texts, _disturbers(roles)
    )
    for wanted in wanted_roles:
        change = _judged_change(wanted, differs[wanted.role], changed, seen, scope)
        if change:
            yield wanted, change.on(seen.node)


@dataclass(frozen=True)
class _Changed:
    """The differences of a node, by name, and the desired texts, by digest."""

    names: Set[str]
    texts: Mapping[str, str]
    disturbers: Mapping[str, Sequence[str]] = field(default_factory=dict)  # unit -> paths of other roles

    def only_in(self, lines: str, change: ResourceChange) -> bool:
        """Return True if it is known that a file changes only in lines which match an expression."""
        file, old = change.resource, change.found.get("text")
        new = self.texts.get(file.text or "") if isinstance(file, File) and not file.holds else None
        if old is None or new is None:
            return False  # in which line a secret stands in the old text is not known
        others = ([line for line in text.splitlines() if not re.fullmatch(lines, line)] for text in (old, new))
        return next(others) == next(others)


def _disturbers(roles: Iterable[DesiredRole]) -> dict[str, list[str]]:
    """Return the paths of roles that restart a unit of another role when they change, by that unit."""
    found: dict[str, list[str]] = {}
    for restart in (restart for wanted in roles for restart in wanted.restarts):
        found.setdefault(restart.unit, []).extend(restart.watches)
    return found


_NOTHING_CHANGED = _Changed(frozenset(), {})


@dataclass(frozen=True)
class Bare:
    """What changes on nodes that have nothing: the same on all that are to have the same."""

    texts: Mapping[str, str]
    scope: Scope
    changes: dict[int, Change] = field(default_factory=dict)  # by id of what is wanted

    def change(self, wanted: DesiredRole) -> Change:
        """Return the change of a role; false where nothing changes."""
        if id(wanted) not in self.changes:
            seen = Observation("", python=False)
            # every unit is started, whatever it watches
            self.changes[id(wanted)] = _judged_change(wanted, nothing_there(wanted), _NOTHING_CHANGED, seen, self.scope)
        return self.changes[id(wanted)]


def _judged_change(
    wanted: DesiredRole, difference: Difference, changed: _Changed, seen: Observation, scope: Scope
) -> Change:
    """Return the change, with reason and disruption; false where nothing changes."""
    forced = wanted.role in scope.forced
    change = _change(wanted, difference, changed, forced)
    if scope.take_over:
        old = (found["name"] for found in seen.obstacles if (found["role"], found["kind"]) == (wanted.role, OLD_STATE))
        change = replace(change, renames=tuple(old))
    unnoted = _unnoted(wanted, seen)
    if not change and not unnoted:
        return change
    does = _disruptions(wanted, change)
    return replace(
        change,
        noted=not unnoted,
        reason=_reason(wanted.role, change, seen, forced, unnoted),
        disruption=worst(does.values()) if seen.configured else "none",
        reboot=tuple(part for part, disruption in does.items() if disruption == "reboot"),
    )


def _unnoted(wanted: DesiredRole, seen: Observation) -> bool:
    return wanted.role in ((seen.receipt or {}).get("unowned") or ())


def _change(wanted: DesiredRole, difference: Difference, changed: _Changed, forced: bool) -> Change:
    found = {unit["name"]: unit for unit in difference.get("units", ())}
    due = bool(difference.get("reboot"))  # until then nothing can be said of the checks
    failed = () if due else tuple((check["name"], str(check["detail"])) for check in difference.get("checks", ()))
    packages = _named(wanted.packages, difference.get("packages", ()))
    resources = _resources(wanted, difference)
    opaque = _opaque(wanted, difference, failed, changed.names, forced)
    own_work = bool(packages or resources or found or opaque)
    again = "forced" if forced else None if own_work or not failed else f"check failed: {failed[0][0]}"
    units = [_unit(unit, found.get(unit.name), resources, changed, again) for unit in wanted.units]
    return Change(
        needs=wanted.needs,
        packages=packages,
        removes=tuple(
            PackageRemoval(removal["name"], tuple(removal["by"])) for removal in difference.get("removes", ())
        ),
        unforeseen=_named(wanted.packages, difference.get("unforeseen", ())),
        resources=resources,
        units=tuple(unit for unit in units if unit is not None),
        opaque=opaque,
        failed_checks=() if own_work else failed,
        checks=wanted.checks,
        programs=wanted.programs,
        listens=wanted.listens,
        owns=_owns(wanted),
        old_state=wanted.old_state,
        guard=wanted.guard,
        shape=wanted.shape,
        reboot=("due",) if due else (),
    )


def _owns(wanted: DesiredRole) -> OwnedResources:
    named = by_kind(wanted.resources, (resource.named for resource in wanted.resources))
    return OwnedResources(
        packages=wanted.packages,
        resources={kind: tuple(names) for kind, names in named.items()},
        units=tuple(unit.name for unit in wanted.units),
        trees=tuple(tree.path for tree in wanted.trees),
        on_remove=wanted.on_remove,
        leaves=wanted.leaves,
        disrupts=wanted.disrupts.get("opaque", "none") if wanted.trees else "none",
    )


def _reason(role: str, change: Change, seen: Observation, forced: bool, unnoted: bool) -> Reason:
    """Return the one word for why: the most important cause comes first."""
    if not seen.configured:
        return "new node"
    if forced:
        return "forced"
    if change.failed_checks:
        return "check failed"
    if any(reversal["role"] == role for reversal in seen.reverted):
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


def _disruptions(wanted: DesiredRole, change: Change) -> dict[RebootCause, Disruption]:
    """Return the disruption of each changed part; starting or reloading a unit does not disrupt it."""
    does: dict[RebootCause, Disruption] = dict.fromkeys(change.reboot, "reboot")
    if change.packages:
        does["packages"] = wanted.disrupts.get("packages", "none")
    for resource_change in change.resources:
        does[resource_change.resource.kind] = wanted.disrupts.get(resource_change.resource.kind, "none")
    if any(action == "restart" for unit in change.units for action in unit.actions):
        does["units"] = wanted.disrupts.get("units", "restart")
    if change.opaque:
        does["opaque"] = wanted.disrupts.get("opaque", "none")
    return does


def _named(names: Iterable[str], missing: Iterable[Any]) -> tuple[str, ...]:
    absent = set(missing)
    return tuple(name for name in names if name in absent)


def _differing(difference: Difference) -> dict[tuple[str, str], ActualState]:
    """Return the observed state of each resource that differs from the desired one, by kind and name."""
    return {
        (kind.name, resource[kind.key]): resource
        for kind in KINDS.values()
        for resource in difference.get(kind.name, ())
    }


def _resources(wanted: DesiredRole, difference: Difference) -> tuple[ResourceChange, ...]:
    found = _differing(difference)
    places = ((resource, (resource.kind, resource.named)) for resource in wanted.resources)
    return tuple(ResourceChange(resource, found[place]) for resource, place in places if place in found)


def _unit(
    unit: Unit,
    found: Mapping[str, Any] | None,
    own: Sequence[ResourceChange],
    changed: _Changed,
    again: str | None,
) -> UnitChange | None:
    """Return the change of a unit, and why; `own` are the changes of its role."""
    actions: list[Action] = []
    reasons = []
    if found is not None and not found["enabled"]:
        actions.append("enable")
        reasons.append("not enabled")
    disturbing = [path for path in changed.disturbers.get(unit.name, ()) if path in changed.names]
    touched = [*(path for path in unit.watches if path in changed.names), *disturbing]
    if found is not None and found["active"] != "active":
        actions.append("restart" if found["active"] == "activating" else "start")
        reasons.append(str(found["active"]))
    elif touched:
        more = found is not None and found["restart_pending"]  # of an earlier run, and not known what
        rereads = not unit.rereads or (not more and set(touched) <= _reread(unit, own, changed))
        rereads = rereads and not disturbing
        actions.append("refresh" if unit.refresh and rereads else "restart")
        reasons.append(f"{', '.join(touched)} changed")
    elif found is not None and found["restart_pending"]:
        actions.append("restart")  # which files it was is not known any more
        reasons.append("an earlier run changed its files and was interrupted")
    elif again is not None:
        actions.append("restart")
        reasons.append(again)
    if not actions:
        return None
    return UnitChange(unit.name, tuple(actions), "; ".join(reasons), unit.refresh if "refresh" in actions else ())


def _reread(unit: Unit, own: Sequence[ResourceChange], changed: _Changed) -> set[str]:
    """Return the files for whose change, if they have one, a refresh is enough."""
    lines = {reread.path: reread.lines for reread in unit.rereads}
    changes = {change.resource.named: change for change in own}
    return {
        path
        for path, expression in lines.items()
        if expression is None or (path in changes and changed.only_in(expression, changes[path]))
    }


def _opaque(
    wanted: DesiredRole, difference: Difference, failed: tuple[tuple[str, str], ...], changed: Set[str], forced: bool
) -> OpaqueChange | None:
    if wanted.opaque is None:
        return None
    old = difference.get("opaque")
    if old is not None:
        why = {None: "first run", "": "an earlier run did not finish it"}
        return OpaqueChange(wanted.opaque, why.get(old["digest"], "its code or inputs changed"))
    if forced:
        return OpaqueChange(wanted.opaque, "forced", repeats=True)
    if touched := [path for path in wanted.opaque.rerun_on if path in changed]:
        return OpaqueChange(wanted.opaque, f"{', '.join(touched)} changed", repeats=True)
    return OpaqueChange(wanted.opaque, f"check failed: {failed[0][0]}", repeats=True) if failed else None
