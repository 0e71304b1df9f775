"""`Desired` and what nodes answered to a `Plan`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from hpcforge.cluster.model import Cluster
from hpcforge.plan.admission import (
    Declared,
    Shortfall,
    declared,
    drains,
    judged,
    not_scheduled,
    parse_slurm_nodes,
    shortfalls,
)
from hpcforge.plan.clocks import ClockOff, clocks_off
from hpcforge.plan.desired import Desired, Disruption, Unit, Wanted
from hpcforge.plan.jobs import SLURM_JOBS, SLURM_WAITING, asks_for, parse_jobs, parse_waiting, too_large
from hpcforge.plan.observed import Difference, Observed, nothing_there
from hpcforge.plan.plan import (
    Change,
    FileChange,
    Leaving,
    OpaqueChange,
    Owns,
    PackageRemoval,
    Plan,
    Reason,
    RebootCause,
    Removal,
    Step,
    UnitChange,
    worst,
)

SLURM_NODES = "slurm_nodes"  # the name under which the controller is asked for Slurm's view


@dataclass(frozen=True)
class Scope:
    """What of the whole a plan is for. `only`: these roles; `forced`: roles whose work is done again."""

    only: frozenset[str] | None = None
    forced: frozenset[str] = frozenset()


EVERYTHING = Scope()


def diff(
    cluster: Cluster,
    desired: Desired,
    observed: Mapping[str, Observed],
    leaving: Sequence[Leaving] = (),
    scope: Scope = EVERYTHING,
    head: Observed | None = None,
) -> Plan:
    """What would change where. Nodes without an entry in `observed` are not spoken of.

    `head` is the controller's answer, where it is not among them.
    """
    reachable = {name: seen for name, seen in observed.items() if seen.unreachable is None}
    bare = _Bare(scope)
    found = {name: tuple(_node_changes(desired.nodes[name], seen, scope, bare)) for name, seen in reachable.items()}
    controller = head or observed.get(cluster.slurm.controller)
    clocks = _clocks(cluster, reachable, controller, found)
    refused = {one.node for one in clocks if one.refused}
    steps: dict[str, dict[str, Change]] = {role: {} for role in desired.roles}
    for name, changes in found.items():
        for wanted, change in changes if name not in refused else ():
            steps[wanted.role][name] = change
    changed = tuple(Step(role, steps[role]) for role in desired.roles if steps[role])
    busy = {node for step in changed for node in step.changes}
    workers = tuple(worker for worker in declared(cluster) if worker.node in reachable)
    short = tuple(_short(workers, reachable, busy))
    answers = controller.answers if controller else {}
    slurm_nodes = parse_slurm_nodes(answers.get(SLURM_NODES, ""))
    going = [one.node for one in leaving if one.worker]
    waiting = parse_waiting(answers.get(SLURM_WAITING, "")) if going else ()
    digests = {
        f.file.digest for step in changed for change in step.changes.values() for f in change.files if f.file.digest
    }
    return Plan(
        cluster=cluster.name,
        nodes=tuple(node.name for node in cluster.nodes if node.name in observed),
        steps=changed,
        first_contact=tuple(name for name, seen in reachable.items() if not seen.python),
        unreachable={name: seen.unreachable for name, seen in observed.items() if seen.unreachable is not None},
        controller=cluster.slurm.controller,
        declared=workers,
        shortfalls=short,
        drains=drains(short, judged(workers, slurm_nodes)),
        texts={digest: text for digest, text in desired.texts.items() if digest in digests},
        removals={
            name: gone
            for name, seen in reachable.items()
            if name not in refused and (gone := tuple(_removals(desired.nodes[name], seen, scope)))
        },
        leaving=tuple(leaving),
        groups={node.name: node.group for node in cluster.nodes if node.name in observed},
        in_service=_in_service(cluster, reachable, slurm_nodes),
        jobs=parse_jobs(answers.get(SLURM_JOBS, "")),
        asked_for={name: asking for name in going if (asking := asks_for(name, waiting))},
        too_large=too_large(waiting, {one.name: len(one.nodes) for one in cluster.slurm.partitions}, len(going)),
        rollout=cluster.rollout,
        basis={name: seen.basis for name, seen in reachable.items()},
        scheduler="slurm_controller" in desired.roles,
        clocks=clocks,
        via=cluster.access.via.name if cluster.access.via and cluster.access.via.is_node else None,
    )


def _short(workers: Iterable[Declared], reachable: Mapping[str, Observed], busy: Set[str]) -> Iterator[Shortfall]:
    """Who shows less than is declared; GPUs of a node that is yet to be worked on may come with that."""
    for worker in workers:
        facts = reachable[worker.node].facts
        if facts:  # none in a plan that is made offline
            yield from shortfalls(worker, facts, gpus_ready=worker.node not in busy)


def _clocks(
    cluster: Cluster,
    reachable: Mapping[str, Observed],
    controller: Observed | None,
    found: Mapping[str, Sequence[tuple[Wanted, Change]]],
) -> tuple[ClockOff, ...]:
    """Whose clocks are off; the controller's is looked at even where it is not spoken of, since others follow it."""
    answers = {**({cluster.slurm.controller: controller} if controller else {}), **reachable}
    clocks = {name: seen.clock for name, seen in answers.items() if seen.clock is not None}
    setting = {name for name, changes in found.items() if any(wanted.sets_clock for wanted, _ in changes)}
    return clocks_off(clocks, cluster.slurm.controller, setting)


def surplus(seen: Observed) -> tuple[Removal, ...]:
    """What a node's receipt owns and no role wants there."""
    roles = (seen.receipt or {}).get("surplus") or {}
    return tuple(
        Removal(
            role,
            Owns(
                packages=tuple(parts.get("packages", ())) if parts.get("on_remove") == "purge" else (),
                files=tuple(parts.get("files", ())),
                directories=tuple(parts.get("directories", ())),
                units=tuple(parts.get("units", ())),
                accounts=tuple(parts.get("accounts", ())),
                on_remove=parts.get("on_remove", "stop"),
            ),
            bool(parts.get("wanted")),
        )
        for role, parts in roles.items()
    )


def _removals(roles: Iterable[Wanted], seen: Observed, scope: Scope) -> Iterator[Removal]:
    guarded = {wanted.role for wanted in roles if wanted.guard}
    for one in surplus(seen):
        if scope.only is None or one.role in scope.only:
            yield replace(one, guard=one.role in guarded)


def _in_service(
    cluster: Cluster, reachable: Mapping[str, Observed], slurm_nodes: Mapping[str, tuple[str, str]]
) -> tuple[str, ...]:
    idle = not_scheduled(slurm_nodes)
    return tuple(
        node.name
        for node in cluster.nodes
        if node.name in reachable and reachable[node.name].configured and node.name not in idle
    )


def _node_changes(
    roles: Iterable[Wanted], seen: Observed, scope: Scope, bare: _Bare
) -> Iterator[tuple[Wanted, Change]]:
    """The roles that have something to change. A unit may watch the files of another role on its node."""
    wanted_roles = [wanted for wanted in roles if scope.only is None or wanted.role in scope.only]
    if not seen.python and seen.receipt is None:
        yield from ((wanted, change.on(seen.node)) for wanted in wanted_roles if (change := bare.change(wanted)))
        return
    differs = {w.role: seen.differs.get(w.role, {}) if seen.python else nothing_there(w) for w in wanted_roles}
    changed_paths = {file["path"] for difference in differs.values() for file in difference.get("files", ())}
    for wanted in wanted_roles:
        change = _judged_change(wanted, differs[wanted.role], changed_paths, seen, scope)
        if change:
            yield wanted, change.on(seen.node)


@dataclass(frozen=True)
class _Bare:
    """What changes on nodes that have nothing: the same on all that are to have the same."""

    scope: Scope
    changes: dict[int, Change] = field(default_factory=dict)  # by id of what is wanted

    def change(self, wanted: Wanted) -> Change:
        if id(wanted) not in self.changes:
            seen = Observed("", python=False)
            # every unit is started, whatever it watches
            self.changes[id(wanted)] = _judged_change(wanted, nothing_there(wanted), frozenset(), seen, self.scope)
        return self.changes[id(wanted)]


def _judged_change(
    wanted: Wanted, difference: Difference, changed_paths: Set[str], seen: Observed, scope: Scope
) -> Change:
    """What changes, with reason and disruption; false where nothing does."""
    forced = wanted.role in scope.forced
    change = _change(wanted, difference, changed_paths, forced)
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


def _unnoted(wanted: Wanted, seen: Observed) -> bool:
    return wanted.role in ((seen.receipt or {}).get("unowned") or ())


def _change(wanted: Wanted, difference: Difference, changed_paths: Set[str], forced: bool) -> Change:
    files = tuple(_files(wanted, difference))
    found = {one["name"]: one for one in difference.get("units", ())}
    due = bool(difference.get("reboot"))  # until then nothing can be said of the checks
    failed = () if due else tuple((one["name"], str(one["detail"])) for one in difference.get("checks", ()))
    packages = _named(wanted.packages, difference.get("packages", ()))
    directories = _picked(wanted.directories, "path", difference)
    accounts = _picked(wanted.accounts, "name", difference, "accounts")
    opaque = _opaque(wanted, difference, failed, forced)
    own_work = bool(packages or directories or files or accounts or found or opaque)
    again = "forced" if forced else None if own_work or not failed else f"check failed: {failed[0][0]}"
    units = [_unit(unit, found.get(unit.name), changed_paths, again) for unit in wanted.units]
    return Change(
        needs=wanted.needs,
        packages=packages,
        removes=tuple(PackageRemoval(one["name"], tuple(one["by"])) for one in difference.get("removes", ())),
        unforeseen=_named(wanted.packages, difference.get("unforeseen", ())),
        directories=directories,
        files=files,
        accounts=accounts,
        units=tuple(unit for unit in units if unit is not None),
        opaque=opaque,
        failed_checks=() if own_work else failed,
        checks=wanted.checks,
        owns=_owns(wanted),
        guard=wanted.guard,
        shape=wanted.shape,
        reboot=("due",) if due else (),
    )


def _owns(wanted: Wanted) -> Owns:
    return Owns(
        packages=wanted.packages,
        files=tuple(file.path for file in wanted.files),
        directories=tuple(directory.path for directory in wanted.directories),
        units=tuple(unit.name for unit in wanted.units),
        accounts=tuple(account.name for account in wanted.accounts),
        on_remove=wanted.on_remove,
    )


def _reason(role: str, change: Change, seen: Observed, forced: bool, unnoted: bool) -> Reason:
    """The one word for why: what a person would look into first comes first."""
    if not seen.configured:
        return "new node"
    if forced:
        return "forced"
    if change.failed_checks:
        return "check failed"
    if any(one["role"] == role for one in seen.reverted):
        return "taken back"
    if any(file.drifted for file in change.files):
        return "drifted"
    due = any(unit.reason.endswith((" changed", "was cut off")) for unit in change.units)
    if change.files or change.opaque or due:
        return "input changed"
    if change.reboot:
        return "reboot pending"
    if change.packages or change.directories or change.accounts or change.units:
        return "input changed" if unnoted else "drifted"
    return "to be noted"


def _disruptions(wanted: Wanted, change: Change) -> dict[RebootCause, Disruption]:
    """What each part that changes does; a unit is not disrupted by being started or re-read."""
    does: dict[RebootCause, Disruption] = dict.fromkeys(change.reboot, "reboot")
    if change.packages:
        does["packages"] = wanted.disrupts.get("packages", "none")
    if change.files:
        does["files"] = wanted.disrupts.get("files", "none")
    if any(action == "restart" for unit in change.units for action in unit.actions):
        does["units"] = wanted.disrupts.get("units", "restart")
    if change.opaque:
        does["opaque"] = wanted.disrupts.get("opaque", "none")
    return does


def _named(names: Iterable[str], missing: Iterable[Any]) -> tuple[str, ...]:
    absent = set(missing)
    return tuple(name for name in names if name in absent)


def _picked(
    resources: tuple[Any, ...], key: str, difference: Difference, section: str = "directories"
) -> tuple[Any, ...]:
    names = {one[key] for one in difference.get(section, ())}
    return tuple(resource for resource in resources if getattr(resource, key) in names)


def _files(wanted: Wanted, difference: Difference) -> Iterable[FileChange]:
    found = {one["path"]: one for one in difference.get("files", ())}
    for file in wanted.files:
        old = found.get(file.path)
        if old is not None:
            written = old.get("written")
            yield FileChange(
                file=file,
                exists=bool(old["exists"]),
                same_content=bool(old["exists"]) and old.get("digest") == file.digest,
                old_text=old.get("text"),
                old_mode=old.get("mode"),
                old_owner=old.get("owner"),
                old_group=old.get("group"),
                drifted=written is not None and (old.get("digest") != written or written == file.digest),
            )


def _unit(unit: Unit, found: Mapping[str, Any] | None, changed_paths: Set[str], again: str | None) -> UnitChange | None:
    actions, reasons = [], []
    if found is not None and not found["enabled"]:
        actions.append("enable")
        reasons.append("not enabled")
    touched = [path for path in unit.watches if path in changed_paths]
    if found is not None and found["active"] != "active":
        actions.append("restart" if found["active"] == "activating" else "start")
        reasons.append(str(found["active"]))
    elif touched:
        rereads = unit.refresh and (not unit.rereads or set(touched) <= set(unit.rereads))
        actions.append("refresh" if rereads else "restart")
        reasons.append(f"{', '.join(touched)} changed")
    elif found is not None and found["restart_pending"]:
        actions.append("restart")  # which files it was is not known any more
        reasons.append("an earlier run changed its files and was cut off")
    elif again is not None:
        actions.append("restart")
        reasons.append(again)
    if not actions:
        return None
    return UnitChange(unit.name, tuple(actions), "; ".join(reasons), unit.refresh if "refresh" in actions else ())


def _opaque(
    wanted: Wanted, difference: Difference, failed: tuple[tuple[str, str], ...], forced: bool
) -> OpaqueChange | None:
    if wanted.opaque is None:
        return None
    old = difference.get("opaque")
    if old is not None:
        return OpaqueChange(wanted.opaque, "first run" if old["digest"] is None else "its code or inputs changed")
    if forced:
        return OpaqueChange(wanted.opaque, "forced")
    return OpaqueChange(wanted.opaque, f"check failed: {failed[0][0]}") if failed else None
