"""The verb observe: return differences from the desired state. It changes nothing and takes no lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.kinds import TABLE, ResourceKind
from hpcforge.node import checks, facts, files, lock, obstacles, ownership, package_manager, receipt, units, user_ids
from hpcforge.node.events import EventReporter, Json, NodeError, explain
from hpcforge.node.gpus import amdgpu
from hpcforge.node.inspection import Inspection
from hpcforge.node.kinds import handler, resources
from hpcforge.node.receipt import Receipt

if TYPE_CHECKING:
    from hpcforge.node import answer_types
    from hpcforge.node.requests import Command, DesiredRoleRequest, ObserveRequest


def observe(request: ObserveRequest, report: EventReporter) -> answer_types.Facts:
    """Answer with facts, differences and requested files; return the facts."""
    asked_s = time.time()
    report.progress(None, "reading the node's state")  # the operator host gives up a silent node sooner
    driver = facts.ask_driver()
    desired = request["wanted"]
    commands = _Commands(desired, request.get("asks", {}))
    commands.start()  # most of them wait for other programs; the rest of this function runs meanwhile
    remembered = receipt.load()
    receipt_answer = _receipt(remembered, desired, bool(desired or request.get("surplus")))
    if remembered.trouble:
        report.warning(f"{remembered.trouble}; all restarts and role code will run again")
    lacking = _packages(desired, report)
    foreseen = _foreseen(desired, lacking)
    down = _units(desired, remembered, report)
    node_facts = facts.collect()
    reads = {path: files.read_text(path) for path in request.get("reads", ())}
    accounts = user_ids.accounts(request["folders"]) if "folders" in request else None
    differences, obstacle_answers = [], []
    for index, role in enumerate(desired):
        difference = {
            "role": role["role"],
            "packages": [name for name in role.get("packages", ()) if name in lacking],
            **_removals_for(role, foreseen),
            **{kind.name: _compare(role, kind, remembered, report) for kind in TABLE},
            "units": [down[unit["name"]] for unit in role.get("units", ()) if unit["name"] in down],
            "checks": commands.failed_checks(index),
            "opaque": _opaque(role, remembered),
            "reboot": remembered.reboot_due(role["role"]),
        }
        if any(value for key, value in difference.items() if key != "role"):
            differences.append(difference)
            obstacle_answers += _conflicts(role, difference, remembered, receipt_answer["surplus"])
    obstacle_answers = obstacles.with_commands(obstacle_answers, desired)
    obstacle_answers += obstacles.search(_host(request, differences, remembered), report)
    answers = commands.answers(report)
    node_facts["nvml"] = facts.driver_says(driver)
    node_facts["amdgpu"] = amdgpu.told(Path("/sys"))
    report.emit(
        {
            "event": "observed",
            "facts": node_facts,
            "differs": differences,
            "obstacles": obstacle_answers,
            "accounts": accounts,
            "reads": reads,
            "answers": answers,
            "receipt": receipt_answer,
            "reverted": list(remembered.reverted),
            "armed": _armed(),
            "at_work": lock.holder(),
            "clock": {"asked_s": asked_s, "said_s": time.time()},
        }
    )
    return node_facts


def _receipt(remembered: Receipt, desired: Sequence[DesiredRoleRequest], compare: bool) -> answer_types.ReceiptAnswer:
    """Return the receipt, compared with the desired state."""
    run = remembered.run
    return {
        "run": run.number,
        "who": run.who,
        "since_s": run.since_s,
        "cluster": remembered.cluster,
        "hpcforge": remembered.hpcforge,
        "trouble": remembered.trouble,
        "surplus": ownership.surplus(remembered, desired) if compare else {},
        "unowned": ownership.unowned(remembered, desired),
    }


def _armed() -> list[answer_types.Armed]:
    if not (receipt.FOLDER / "guards").exists():
        return []
    from hpcforge.node import guard  # noqa: PLC0415 - compiled on the node each time, and seldom needed

    return guard.told()


class _Commands(threading.Thread):
    """A thread that runs all checks and requested commands; the same command of several checks runs once."""

    def __init__(self, desired: Sequence[DesiredRoleRequest], asks: Mapping[str, Command]) -> None:
        super().__init__()
        self.places = [(index, check) for index, role in enumerate(desired) for check in role.get("checks", ())]
        self.asks = asks
        self.details: list[str | None] = [None] * len(self.places)
        self.outputs: list[str | None] = []
        self.cut: dict[str, NodeError] = {}  # commands with too much output, by name

    def run(self) -> None:
        by_command: dict[tuple[str, ...], list[int]] = {}  # places by command
        for place, (_, check) in enumerate(self.places):
            by_command.setdefault(tuple(check["command"]), []).append(place)
        tasks = [partial(checks.once, [self.places[place][1] for place in places]) for places in by_command.values()]
        tasks += [partial(self._ask, name, argv) for name, argv in self.asks.items()]
        results = checks.side_by_side(tasks)
        for places, result in zip(by_command.values(), results):
            for place, detail in zip(places, [result] * len(places) if isinstance(result, str) else result):
                self.details[place] = detail
        self.outputs = [None if isinstance(result, str) else result[0] for result in results[len(by_command) :]]

    def _ask(self, name: str, argv: Sequence[str]) -> list[str | None]:
        try:
            return [checks.output(argv)]
        except NodeError as error:
            self.cut[name] = error
            return [None]

    def answers(self, report: EventReporter) -> Json:
        """Return the output of requested commands that succeeded; report one with too much output as failed."""
        self.join()
        for name, error in self.cut.items():
            report.failed(None, "command", name, error)
        return {name: output for name, output in zip(self.asks, self.outputs) if output is not None}

    def failed_checks(self, role_index: int) -> list[answer_types.FailedCheck]:
        """Return the failed checks of a role."""
        self.join()
        pairs = ((place, detail) for place, detail in zip(self.places, self.details) if detail is not None)
        return [{"name": check["name"], "detail": detail} for (index, check), detail in pairs if index == role_index]


def _host(request: ObserveRequest, differences: Sequence[Json], remembered: Receipt) -> Inspection:
    """Return the input of the search for obstacles: the roles with changes, or all roles on request."""
    by_role = {difference["role"]: difference for difference in differences}
    all_roles = request.get("inspect", False)
    roles = [role for role in request["wanted"] if all_roles or role["role"] in by_role]
    return Inspection(roles, by_role, remembered, request["wanted"])


def _conflicts(
    role: DesiredRoleRequest, difference: Json, remembered: Receipt, surplus: Json
) -> list[answer_types.ObstacleAnswer]:
    """Return the obstacles to a role's resources, except at paths that are removed first."""
    paths = [kind.name for kind in TABLE if kind.key == "path"]
    removals = [path for leftover in surplus.values() for kind in (*paths, "trees") for path in leftover.get(kind, ())]
    conflicts = []
    for kind in TABLE:
        differs = {resource[kind.key] for resource in difference.get(kind.name, ())}
        for item in resources(role, kind):
            name = getattr(item, kind.key)
            if name in differs and not any(f"{name}/".startswith(f"{path}/") for path in removals):
                obstacle = obstacles.of_resource(role, kind, item, remembered)
                conflicts += [obstacle] if obstacle else []
    return conflicts


def _compare(role: DesiredRoleRequest, kind: ResourceKind, remembered: Receipt, report: EventReporter) -> list[Json]:
    differences = []
    for item in resources(role, kind):
        name = getattr(item, kind.key)
        try:
            difference = handler(kind.name).compare(item)
        except Exception as error:  # an error at one path must not hide other differences
            report.failed(role["role"], kind.singular, name, error)
            continue
        if difference and "digest" in difference:  # it distinguishes hpcforge's changes from others'
            last = ownership.last_written(remembered, role["role"], kind.name, name, difference["digest"])
            difference = {**difference, "written": last}
            if not getattr(item, "fills", ()) and ownership.held_secret(remembered, kind.name, name):
                difference["text"] = None
        elif difference:
            difference = {**difference, **ownership.put_last(remembered, role["role"], kind.name, item)}
        if difference:
            differences.append(difference)
    return differences


def _packages(desired: Sequence[DesiredRoleRequest], report: EventReporter) -> frozenset[str]:
    names = [name for role in desired for name in role.get("packages", ())]
    manager = package_manager.of_node()
    try:
        return frozenset(manager.missing(names))
    except Exception as error:
        for role in desired:
            if role.get("packages"):
                report.failed(role["role"], "package", manager.database, error)
        return frozenset(names)


def _foreseen(desired: Sequence[DesiredRoleRequest], lacking: frozenset[str]) -> Json:
    """Return the packages that an installation would remove: `removes`, and `unforeseen` if they are not known yet."""
    if not lacking:
        return {"removes": {}, "unforeseen": frozenset()}
    manager = package_manager.of_node()
    try:
        outcome = manager.foresee(lacking)._asdict()
        # A role's own `replaces` counts, too, as long as no source has the role's packages.
        late = [role for role in desired if set(role.get("packages", ())) & outcome["unforeseen"]]
        replaced = {name: role for role in late for name in role.get("replaces", ())}
        for name in replaced.keys() - set(manager.missing(list(replaced))):
            outcome["removes"].setdefault(name, sorted(set(replaced[name]["packages"]) & outcome["unforeseen"]))
        return outcome
    except NodeError:  # the package manager does not answer, which is reported elsewhere
        return {"removes": {}, "unforeseen": lacking}


def _removals_for(role: DesiredRoleRequest, foreseen: Json) -> Json:
    """Return the removals that a role's packages cause, and the packages whose removals are not known yet."""
    names = set(role.get("packages", ()))
    removes = [{"name": name, "by": by} for name, by in foreseen["removes"].items() if names & set(by)]
    return {"removes": removes, "unforeseen": sorted(names & foreseen["unforeseen"])}


def _units(
    desired: Sequence[DesiredRoleRequest], remembered: Receipt, report: EventReporter
) -> dict[str, answer_types.UnitAnswer]:
    names = list(dict.fromkeys(unit["name"] for role in desired for unit in role.get("units", ())))
    due = [name for name in names if remembered.restart_due(name)]
    try:
        return {unit["name"]: unit for unit in units.compare(names, due)}
    except Exception as error:
        report.warning(f"systemd does not answer: {explain(error)}")
        return {name: {"name": name, "enabled": False, "active": "unknown", "restart_pending": True} for name in names}


def _opaque(role: DesiredRoleRequest, remembered: Receipt) -> answer_types.OldOpaque | None:
    work = role.get("opaque")
    if not work:
        return None
    old = remembered.opaque.get(role["role"])
    return None if old == work["digest"] else {"digest": old}
