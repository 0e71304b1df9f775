"""`Desired` and what nodes answered to a `Plan`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from hpcforge.cluster.model import Cluster
from hpcforge.plan.admission import declared, drains, judged, parse_slurm_nodes, shortfalls
from hpcforge.plan.desired import Desired, Unit, Wanted
from hpcforge.plan.observed import Difference, Observed, nothing_there
from hpcforge.plan.plan import Change, FileChange, OpaqueChange, Plan, Step, UnitChange

SLURM_NODES = "slurm_nodes"  # the name under which the controller is asked for Slurm's view


def diff(cluster: Cluster, desired: Desired, observed: Mapping[str, Observed]) -> Plan:
    """What would change where. Nodes without an entry in `observed` are not spoken of."""
    reachable = {name: seen for name, seen in observed.items() if seen.unreachable is None}
    steps: dict[str, dict[str, Change]] = {role: {} for role in desired.roles}
    for name, seen in reachable.items():
        for wanted, change in _node_changes(desired.nodes[name], seen):
            steps[wanted.role][name] = change
    changed = tuple(Step(role, steps[role]) for role in desired.roles if steps[role])
    busy = {node for step in changed for node in step.changes}
    workers = tuple(worker for worker in declared(cluster) if worker.node in reachable)
    short = tuple(
        one
        for worker in workers
        for one in shortfalls(worker, reachable[worker.node].facts, gpus_ready=worker.node not in busy)
    )
    controller = reachable.get(cluster.slurm.controller)
    slurm_nodes = parse_slurm_nodes(controller.answers.get(SLURM_NODES, "") if controller else "")
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
    )


def _node_changes(roles: Iterable[Wanted], seen: Observed) -> Iterator[tuple[Wanted, Change]]:
    """The roles that have something to change. A unit may watch the files of another role on its node."""
    differs = {w.role: seen.differs.get(w.role, {}) if seen.python else nothing_there(w) for w in roles}
    changed_paths = {file["path"] for difference in differs.values() for file in difference.get("files", ())}
    for wanted in roles:
        change = _change(wanted, differs[wanted.role], changed_paths)
        if change:
            yield wanted, change


def _change(wanted: Wanted, difference: Difference, changed_paths: Set[str]) -> Change:
    files = tuple(_files(wanted, difference))
    found = {one["name"]: one for one in difference.get("units", ())}
    failed = tuple((one["name"], str(one["detail"])) for one in difference.get("checks", ()))
    packages = _named(wanted.packages, difference.get("packages", ()))
    directories = _picked(wanted.directories, "path", difference)
    accounts = _picked(wanted.accounts, "name", difference, "accounts")
    opaque = _opaque(wanted, difference, failed)
    own_work = bool(packages or directories or files or accounts or found or opaque)
    units = [
        _unit(unit, found.get(unit.name), changed_paths, None if own_work or not failed else failed[0])
        for unit in wanted.units
    ]
    return Change(
        needs=wanted.needs,
        packages=packages,
        directories=directories,
        files=files,
        accounts=accounts,
        units=tuple(unit for unit in units if unit is not None),
        opaque=opaque,
        failed_checks=() if own_work else failed,
        checks=wanted.checks,
    )


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
            yield FileChange(
                file=file,
                exists=bool(old["exists"]),
                same_content=bool(old["exists"]) and old.get("digest") == file.digest,
                old_text=old.get("text"),
                old_mode=old.get("mode"),
                old_owner=old.get("owner"),
                old_group=old.get("group"),
            )


def _unit(
    unit: Unit, found: Mapping[str, Any] | None, changed_paths: Set[str], failed: tuple[str, str] | None
) -> UnitChange | None:
    actions, reasons = [], []
    if found is not None and not found["enabled"]:
        actions.append("enable")
        reasons.append("not enabled")
    touched = [path for path in unit.watches if path in changed_paths]
    if found is not None and found["active"] != "active":
        actions.append("restart" if found["active"] == "activating" else "start")
        reasons.append(str(found["active"]))
    elif touched:
        actions.append("restart")
        reasons.append(f"{', '.join(touched)} changed")
    elif found is not None and found["restart_pending"]:
        actions.append("restart")
        reasons.append("an earlier run changed its files and was cut off")
    elif failed is not None:
        actions.append("restart")
        reasons.append(f"check failed: {failed[0]}")
    return UnitChange(unit.name, tuple(actions), "; ".join(reasons)) if actions else None


def _opaque(wanted: Wanted, difference: Difference, failed: tuple[tuple[str, str], ...]) -> OpaqueChange | None:
    if wanted.opaque is None:
        return None
    old = difference.get("opaque")
    if old is not None:
        return OpaqueChange(wanted.opaque, "first run" if old["digest"] is None else "its code or inputs changed")
    return OpaqueChange(wanted.opaque, f"check failed: {failed[0][0]}") if failed else None
