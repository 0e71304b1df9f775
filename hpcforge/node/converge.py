"""The verbs converge and record: make it so, one phase at a time, under the node's lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Optional

from hpcforge.node import (
    accounts,
    checks,
    dpkg,
    files,
    guard,
    lock,
    originals,
    ownership,
    packages,
    receipt,
    space,
    starts,
    units,
)
from hpcforge.node.events import Json, NodeError, Report
from hpcforge.node.receipt import Receipt

Act = Callable[[Json], Optional[str]]


def prepare(request: Json, report: Report) -> None:
    """Accounts, early files, packages, directories, files: all roles, a phase at a time."""
    work: list[Json] = request["work"]
    space.check(work)
    with lock.held(request, "converge, prepare"):
        remembered = guard.forget_reverted(receipt.begin(request, report), work)
        lacking = _lacking(work, report)
        remembered = remembered._replace(restarts=remembered.restarts | set(request.get("restarts", ())))
        remembered = remembered.with_reboots(role["role"] for role in work if role.get("reboot"))
        remembered = ownership.intend(remembered, work, lacking)
        receipt.save(remembered)  # before the first change, so that a run that is cut off leaves nothing unowned
        starts.release()  # what a killed run may have left
        _refuse_unkept(work, remembered, report)
        _each(work, "accounts", report)
        _arm(work, _early, report)
        sources = _each(work, "files", report, _early)
        absent = _install(work, lacking, any(path.startswith("/etc/apt/") for path in sources), report)
        remembered = ownership.without_packages(remembered, absent)
        receipt.save(remembered)
        _each(work, "directories", report)
        _arm(work, _late, report)
        _each(work, "files", report, _late)
        remembered = ownership.written(remembered, [role for role in work if report.is_well(role)])
        receipt.save(remembered)
        _end_guarded(work, remembered, report)


def finish(request: Json, report: Report) -> None:
    """Units and checks, role by role; at the end every unit is looked at once more."""
    work: list[Json] = request["work"]
    space.check(())
    with lock.held(request, "converge, finish"):
        remembered = receipt.begin(request, report)
        taken_back = {role["role"]: guard.refused(remembered, role) for role in work}
        fresh = [role for role in work if not taken_back[role["role"]]]
        remembered = guard.forget_reverted(ownership.intend(remembered, work), fresh)
        receipt.save(remembered)
        starts.release()
        if any(role.get("units") for role in work):
            units.reload()
        for role in work:
            if report.goes_on(role):
                remembered = _finish_role(role, remembered, report, taken_back[role["role"]])
        _still_running([role for role in work if role["role"] not in {**report.failures, **report.skips}], report)
        _end_guarded(work, remembered, report)


def record(request: Json, report: Report) -> None:
    """Remember that a role's opaque work was done."""
    with lock.held(request, "record"):
        remembered = receipt.begin(request, report)
        remembered = remembered.with_reboots([request["role"]] if request.get("reboot") else [])
        receipt.save(remembered._replace(opaque={**remembered.opaque, request["role"]: request["digest"]}))
    report.changed(request["role"], "opaque", request["role"], f"digest {request['digest'][:12]}")


_KINDS: Mapping[str, tuple[str, Act]] = {
    "accounts": ("account", accounts.put),
    "directories": ("directory", files.put_directory),
    "files": ("file", files.put_file),
}


def _each(work: Sequence[Json], key: str, report: Report, chosen: Callable[[Json], bool] = bool) -> list[str]:
    """Act on one kind of resource of every role that may go on; names of those that changed."""
    kind, act = _KINDS[key]
    changed = []
    for role in work:
        for item in role.get(key, ()):
            if not chosen(item) or not report.goes_on(role):
                continue
            name = item.get("path") or item["name"]
            try:
                detail = act(item)
            except Exception as error:
                report.failed(role["role"], kind, name, error)
                break
            if detail:
                changed.append(name)
                report.changed(role["role"], kind, name, detail)
    return changed


def _refuse_unkept(work: Sequence[Json], remembered: Receipt, report: Report) -> None:
    """What was at a file's path before us has to be kept before it is replaced; where that is too much, nothing is."""
    for role in work:
        owned = remembered.roles[role["role"]]["files"]
        for file in role.get("files", ()):
            try:
                if file["path"] not in owned:
                    originals.keep(file["path"])
            except originals.TooLargeError as error:
                report.failed(role["role"], "file", file["path"], error)
            except NodeError:
                continue  # putting it says what is wrong with it


def _early(file: Json) -> bool:
    return bool(file.get("early"))


def _late(file: Json) -> bool:
    return not _early(file)


def _arm(work: Sequence[Json], chosen: Callable[[Json], bool], report: Report) -> None:
    """Arm the guards of roles whose files are about to change."""
    for role in work:
        paths = [file["path"] for file in role.get("files", ()) if chosen(file)]
        if role.get("guard") and paths and report.goes_on(role):
            try:
                guard.arm(role, paths)
            except Exception as error:
                report.failed(role["role"], "guard", role["guard"]["id"], error)


def _end_guarded(work: Sequence[Json], remembered: Receipt, report: Report) -> None:
    """Take back at once what guarded roles that failed have changed; the others' time to be confirmed begins."""
    for role in work:
        if role.get("guard") and role["role"] in report.failures:
            remembered = _take_back(role, remembered, report)
    guard.extend([role for role in work if role["role"] not in report.failures])


def _take_back(role: Json, remembered: Receipt, report: Report) -> Receipt:
    if not any(one["guard"] == role["guard"]["id"] for one in guard.armed()):
        return remembered
    error = report.failures[role["role"]]
    remembered = guard.take_back(role["guard"]["id"], remembered, report, error)
    report.failed(role["role"], "guard", role["guard"]["id"], f"{error}\nwhat was changed for it was put back")
    return remembered


def _lacking(work: Sequence[Json], report: Report) -> list[str]:
    """Packages that these roles want and that are not installed."""
    roles = [role for role in work if role.get("packages") and report.goes_on(role)]
    try:
        return dpkg.missing([name for role in roles for name in role["packages"]]) if roles else []
    except Exception as error:
        for role in roles:
            report.failed(role["role"], "package", " ".join(role["packages"]), error)
        return []


def _install(work: Sequence[Json], lacking: Sequence[str], fresh_lists: bool, report: Report) -> frozenset[str]:
    """Install what roles that may go on lack; what is missing afterwards."""
    roles = [role for role in work if set(role.get("packages", ())) & set(lacking) and report.goes_on(role)]
    names = [name for name in lacking if any(name in role["packages"] for role in roles)]
    if not names:
        return frozenset()
    try:
        removes = {name: role["role"] for role in roles for name in role.get("removes", ())}
        there = removes.keys() - set(dpkg.missing(list(removes)))
        result = packages.install(names, fresh_lists, removes, report)
        after = frozenset(dpkg.missing(names))
        for name in dpkg.missing(list(there)):
            report.changed(removes[name], "package", name, "removed")
    except Exception as error:
        for role in roles:
            report.failed(role["role"], "package", " ".join(role["packages"]), error)
        return frozenset(names)
    told = set()
    for role in roles:
        for name in role["packages"]:
            if name in after:
                report.failed(role["role"], "package", name, _why_missing(name, result))
            elif name in names and name not in told:
                told.add(name)
                report.changed(role["role"], "package", name, "installed")
    return after


def _why_missing(name: str, result: packages.Result) -> str:
    if name in result.unknown:
        return f"no package source of this node has a package {name!r}" + (f": {result.error}" if result.error else "")
    return result.error or f"apt-get succeeded and {name!r} is not installed: is it a virtual package? name a real one"


def _finish_role(role: Json, remembered: Receipt, report: Report, taken_back: str | None) -> Receipt:
    kind = name = ""
    try:
        if taken_back:
            kind, name = "guard", role["guard"]["id"]
            raise NodeError(taken_back)
        if role.get("guard") and role.get("units"):
            guard.arm(role, names=[unit["name"] for unit in role["units"]])
        for unit in role.get("units", ()):
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
        report.role_done(role["role"])
    except Exception as error:
        report.failed(role["role"], kind, name, error)
        if role.get("guard"):
            remembered = _take_back(role, remembered, report)
    return remembered


def _still_running(work: Sequence[Json], report: Report) -> None:
    """A daemon may fall over after it was seen to run, for example when another one is restarted."""
    owner = {unit["name"]: role["role"] for role in work for unit in role.get("units", ())}
    for name, unit in units.query(list(owner)).items():
        if not unit.runs:
            report.failed(owner[name], "unit", name, "it ran and then stopped: " + units.why(name))
