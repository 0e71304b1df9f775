"""The verbs converge and record: apply the desired state, one phase at a time, under the node's lock."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from hpcforge.kinds import TABLE, ResourceKind
from hpcforge.node import (
    checks,
    disk_space,
    disk_sync,
    guard,
    lock,
    obstacles,
    ownership,
    package_manager,
    receipt,
    units,
)
from hpcforge.node.events import EventReporter, LaterError, NodeError
from hpcforge.node.inspection import Inspection
from hpcforge.node.kinds import handler, resources
from hpcforge.node.obstacles import old_state
from hpcforge.node.receipt import Receipt

if TYPE_CHECKING:
    from hpcforge.kinds.files import File
    from hpcforge.kinds.resource import Resource
    from hpcforge.node.answer_types import ObstacleAnswer
    from hpcforge.node.requests import (
        DesiredRoleRequest,
        FinishRequest,
        GuardRequest,
        PrepareRequest,
        RecordRequest,
        WorkRequest,
    )


def prepare(request: PrepareRequest, report: EventReporter) -> None:
    """Put early resources, packages, then the other resources: of all roles, one kind after the other."""
    work = request["work"]
    disk_space.check(work)
    with lock.held(request, "converge, prepare"):
        remembered = guard.forget_reverted(receipt.begin(request, report), work)
        lacking = _lacking(work, report)
        allowed = {old_state.KIND} if request.get("take_over") else set()
        if request.get("inspect") and not _is_fit(work, lacking, remembered, report, allowed):
            return
        if request.get("take_over"):
            old_state.keep_aside(work, report)
        remembered = remembered._replace(restarts=remembered.restarts | set(request.get("restarts", ())))
        remembered = remembered.with_reboots(role["role"] for role in work if role.get("reboot"))
        remembered = ownership.intend(remembered, work, lacking)
        receipt.save(remembered)  # before the first change: an interrupted run leaves nothing unowned
        package_manager.of_node().release()  # after a killed run
        _refuse_obstructed(work, remembered, report)
        changed = _put(work, report, early=True)
        settings = package_manager.of_node().settings_folder
        fresh = any(kind.sources or name.startswith(settings) for kind, name in changed)
        absent = _install(work, lacking, fresh, report)
        remembered = ownership.without_packages(remembered, absent)
        receipt.save(remembered)
        _put(work, report, early=False)
        if report.count:
            disk_sync.system()
        remembered = ownership.written(remembered, [role for role in work if report.is_well(role)])
        receipt.save(remembered)
        _end_guarded(work, remembered, report)


def finish(request: FinishRequest, report: EventReporter) -> None:
    """Run units and checks, role by role; at the end check every unit again."""
    work = request["work"]
    disk_space.check(())
    with lock.held(request, "converge, finish"):
        remembered = receipt.begin(request, report)
        reverts = {role["role"]: guard.refused(remembered, role) for role in work}
        fresh = [role for role in work if not reverts[role["role"]]]
        remembered = guard.forget_reverted(ownership.intend(remembered, work), fresh)
        receipt.save(remembered)
        package_manager.of_node().release()
        if any(role.get("units") for role in work):
            units.reload()
        for role in work:
            if report.goes_on(role):
                remembered = _finish_role(role, remembered, report, reverts[role["role"]])
        _still_running([role for role in work if role["role"] not in {**report.failures, **report.skips}], report)
        _end_guarded(work, remembered, report)


def record(request: RecordRequest, report: EventReporter) -> None:
    """Record that a role's opaque work is complete, or, without a digest, that it starts again."""
    with lock.held(request, "record"):
        remembered = receipt.begin(request, report)
        remembered = remembered.with_reboots([request["role"]] if request.get("reboot") else [])
        disk_sync.system()  # recorded work is never repeated
        receipt.save(remembered._replace(opaque={**remembered.opaque, request["role"]: request["digest"]}))
    if request["digest"]:
        report.changed(request["role"], "opaque", request["role"], f"digest {request['digest'][:12]}")


def _is_fit(
    work: Sequence[WorkRequest],
    lacking: Collection[str],
    remembered: Receipt,
    report: EventReporter,
    allowed: Collection[str] = (),
) -> bool:
    """Report the obstacles to applying these roles, except of allowed kinds; return True without any."""
    packages_of = {role["role"]: [name for name in role.get("packages", ()) if name in lacking] for role in work}
    differences = {role["role"]: {**role, "packages": packages_of[role["role"]]} for role in work}
    roles = cast("Sequence[DesiredRoleRequest]", work)
    host = Inspection(roles, differences, remembered, roles)
    _refuse(report, *(obstacle for obstacle in obstacles.search(host, report) if obstacle["kind"] not in allowed))
    for role in work if report.failures else ():
        report.skipped(role["role"], next(iter(report.failures)))
    return not report.failures


def _refuse_obstructed(work: Sequence[WorkRequest], remembered: Receipt, report: EventReporter) -> None:
    """Fail each role with an obstacle to a resource, before the first change."""
    roles = cast("Sequence[DesiredRoleRequest]", work)
    items = [(role, kind, item) for role in roles for kind in TABLE for item in resources(role, kind)]
    conflicts = [obstacles.of_resource(role, kind, item, remembered) for role, kind, item in items]
    _refuse(report, *obstacles.with_commands([obstacle for obstacle in conflicts if obstacle], roles))


def _refuse(report: EventReporter, *several: ObstacleAnswer) -> None:
    """Report the role of each obstacle as failed, with the commands that remove it."""
    for obstacle in several:
        lines = [obstacle["why"], *(f"run there: {command}" for command in obstacle["commands"])]
        report.failed(obstacle["role"], obstacle["kind"], obstacle["name"], "\n".join(lines))


def _put(work: Sequence[WorkRequest], report: EventReporter, *, early: bool) -> list[tuple[ResourceKind, str]]:
    """Put the early or the other resources of all roles that can continue, by kind; return the changes by name."""
    changed: list[tuple[ResourceKind, str]] = []
    for kind in TABLE:
        items = {
            role["role"]: [
                resource for resource in resources(role, kind) if early == (kind.early or _is_early(resource))
            ]
            for role in work
        }
        if kind.name == "files":
            _arm(work, items, report)
        for role in work:
            changed += ((kind, name) for name in _put_items(role, kind, items[role["role"]], report))
    return changed


def _is_early(resource: Resource) -> bool:
    return bool(getattr(resource, "early", False))


def _put_items(
    role: WorkRequest, kind: ResourceKind, items: Sequence[Resource], report: EventReporter
) -> Iterator[str]:
    for item in items:
        if not report.goes_on(role):
            return
        try:
            detail = handler(kind.name).put(item)
        except LaterError as error:
            detail = error.did
            report.warning(f"{kind.singular} {getattr(item, kind.key)}: {error}")
        except Exception as error:
            report.failed(role["role"], kind.singular, getattr(item, kind.key), error)
            return
        if detail:
            yield getattr(item, kind.key)
            report.changed(role["role"], kind.singular, getattr(item, kind.key), detail)


def _arm(work: Sequence[WorkRequest], files: Mapping[str, Sequence[File]], report: EventReporter) -> None:
    """Arm the guards of roles with files to change (`files`: by role)."""
    for role in work:
        paths = [file.path for file in files[role["role"]]]
        request = role.get("guard")
        if request and paths and report.goes_on(role):
            try:
                guard.arm(role["role"], request, paths)
            except Exception as error:
                report.failed(role["role"], "guard", request["id"], error)


def _end_guarded(work: Sequence[WorkRequest], remembered: Receipt, report: EventReporter) -> None:
    """Revert failed guarded roles at once; start the timers of the others."""
    for role in work:
        request = role.get("guard")
        if request and role["role"] in report.failures:
            remembered = _revert(role["role"], request, remembered, report)
    guard.extend([role for role in work if role["role"] not in report.failures])


def _revert(role: str, request: GuardRequest, remembered: Receipt, report: EventReporter) -> Receipt:
    if not any(armed_guard["guard"] == request["id"] for armed_guard in guard.armed()):
        return remembered
    error = report.failures[role]
    remembered = guard.revert_now(request["id"], remembered, report, error)
    report.failed(role, "guard", request["id"], f"{error}\nits changes were reverted")
    return remembered


def _lacking(work: Sequence[WorkRequest], report: EventReporter) -> list[str]:
    """Return the packages of these roles that are not installed."""
    roles = [role for role in work if role.get("packages") and report.goes_on(role)]
    try:
        return package_manager.of_node().missing([name for role in roles for name in role["packages"]]) if roles else []
    except Exception as error:
        for role in roles:
            report.failed(role["role"], "package", " ".join(role["packages"]), error)
        return []


def _install(
    work: Sequence[WorkRequest], lacking: Sequence[str], fresh_lists: bool, report: EventReporter
) -> frozenset[str]:
    """Install the missing packages of roles that can continue; return the packages that are still missing."""
    roles = [role for role in work if set(role.get("packages", ())) & set(lacking) and report.goes_on(role)]
    names = [name for name in lacking if any(name in role["packages"] for role in roles)]
    if not names:
        return frozenset()
    manager = package_manager.of_node()
    try:
        removes = {name: role["role"] for role in roles for name in role.get("removes", ())}
        present = removes.keys() - set(manager.missing(list(removes)))
        result = manager.install(names, fresh_lists, removes, report)
        disk_sync.system()  # dpkg may sync unpacked files, but not what maintainer scripts write
        after = frozenset(manager.missing(names))
        for name in manager.missing(list(present)):
            report.changed(removes[name], "package", name, "removed")
    except Exception as error:
        for role in roles:
            report.failed(role["role"], "package", " ".join(role["packages"]), error)
        return frozenset(names)
    reported = set()
    for role in roles:
        for name in role["packages"]:
            if name in after:
                report.failed(role["role"], "package", name, _why_missing(name, result))
            elif name in names and name not in reported:
                reported.add(name)
                report.changed(role["role"], "package", name, "installed")
    return after


def _why_missing(name: str, result: package_manager.TransactionResult) -> str:
    if name in result.unknown:
        return f"no package source of this node has a package {name!r}" + (f": {result.error}" if result.error else "")
    succeeded = f"{package_manager.of_node().installer} succeeded"
    return result.error or f"{succeeded}, but {name!r} is not installed: a virtual package? name a real one"


def _finish_role(role: WorkRequest, remembered: Receipt, report: EventReporter, reverted: str | None) -> Receipt:
    request, asked_units, before = role.get("guard"), role.get("units", ()), report.count
    kind = name = ""
    try:
        if request and reverted:
            kind, name = "guard", request["id"]
            raise NodeError(reverted)
        if request and asked_units:
            guard.arm(role["role"], request, names=[unit["name"] for unit in asked_units])
        for unit in asked_units:
            kind, name = "unit", unit["name"]
            detail = units.bring_up(name, unit["actions"], unit.get("refresh", ()))
            if detail:
                report.changed(role["role"], kind, name, detail)
            if name in remembered.restarts and detail and detail != "enabled":
                remembered = remembered._replace(restarts=remembered.restarts - {name})
                receipt.save(remembered)
        for check in role.get("checks", ()):
            kind, name = "check", check["name"]
            if check["wait_s"] > 2:
                report.progress(role["role"], f"check: {name}")
            checks.until_passed(check, lambda: report.stopped)
        if report.count > before:
            disk_sync.system()
        report.role_done(role["role"])
    except Exception as error:
        report.failed(role["role"], kind, name, error)
        if request:
            remembered = _revert(role["role"], request, remembered, report)
    return remembered


def _still_running(work: Sequence[WorkRequest], report: EventReporter) -> None:
    """Check again that daemons run: one may fail later, for example when another one is restarted."""
    owner = {unit["name"]: role["role"] for role in work for unit in role.get("units", ())}
    for name, unit in units.query(list(owner)).items():
        if not unit.runs:
            report.failed(owner[name], "unit", name, "it ran and then stopped: " + units.failure(name))
