"""A plan as what each node is sent, one after the other."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcforge.engines.tasks import Ansible, Bootstrap, Deploy, Program, Task
from hpcforge.plan.plan import Change, FileChange, Plan

_PREPARE_TIMEOUT_S = 3600.0  # packages from a slow mirror
_FINISH_TIMEOUT_S = 900.0
_OPAQUE_TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class Stage:
    """One task for one node, for these roles; not before every one of `after` (node, role) is done."""

    name: str  # "first contact", "packages and files", "units and checks", or the opaque role's
    roles: tuple[str, ...]
    after: tuple[tuple[str, str], ...]
    task: Task
    completes: tuple[str, ...]  # the roles that are done when it is


def stages(plan: Plan, node: str, secrets: Mapping[str, bytes]) -> tuple[Stage, ...]:
    """What a node is sent, in order. `secrets` are needed as content of files and go nowhere else."""
    changes = {step.role: step.changes[node] for step in plan.steps if node in step.changes}
    found: list[Stage] = []
    if node in plan.first_contact:
        task = Bootstrap(f"bootstrap:{node}", node, _PREPARE_TIMEOUT_S)
        found.append(Stage("first contact", tuple(changes), (), task, ()))
    prepare = _prepare(plan, node, changes, secrets)
    if prepare is not None:
        found.append(prepare)
    for batch in _batches(changes, node):
        found.extend(_finish(node, batch, changes))
    return tuple(found)


def _prepare(plan: Plan, node: str, changes: Mapping[str, Change], secrets: Mapping[str, bytes]) -> Stage | None:
    work = [
        {
            "role": role,
            "packages": list(change.packages),
            "directories": [dataclasses.asdict(directory) for directory in change.directories],
            "files": [_file(file, plan.texts, secrets) for file in change.files],
            "accounts": [dataclasses.asdict(account) for account in change.accounts],
        }
        for role, change in changes.items()
        if change.packages or change.directories or change.files or change.accounts
    ]
    if not work:
        return None
    restarts = [unit.name for change in changes.values() for unit in change.units if "restart" in unit.actions]
    request = {"verb": "converge", "phase": "prepare", "work": work, "restarts": restarts}
    task = Program(f"prepare:{node}", node, request, _PREPARE_TIMEOUT_S)
    return Stage("packages and files", tuple(str(one["role"]) for one in work), (), task, ())


def _file(change: FileChange, texts: Mapping[str, str], secrets: Mapping[str, bytes]) -> dict[str, Any]:
    file = change.file
    if change.same_content:
        content = None
    elif file.secret is not None:
        content = base64.b64encode(secrets[file.secret]).decode()
    else:
        content = base64.b64encode(texts[str(file.digest)].encode()).decode()
    return {**dataclasses.asdict(file), "content_base64": content}


def _batches(changes: Mapping[str, Change], node: str) -> Iterator[list[str]]:
    """Roles that can be finished in one go: a role that waits for other nodes, or has opaque work, starts anew."""
    batch: list[str] = []
    for role, change in changes.items():
        if batch and (change.opaque or _cross_node(change, node)):
            yield batch
            batch = []
        batch.append(role)
        if change.opaque:
            yield batch
            batch = []
    if batch:
        yield batch


def _cross_node(change: Change, node: str) -> tuple[tuple[str, str], ...]:
    return tuple((other, need.role) for need in change.needs for other in need.nodes if other != node)


def _finish(node: str, batch: list[str], changes: Mapping[str, Change]) -> Iterator[Stage]:
    """Units, then opaque work, then checks; a batch with opaque work is that one role."""
    roles = tuple(batch)
    after = tuple(pair for role in roles for pair in _cross_node(changes[role], node))
    opaque = changes[roles[0]].opaque
    if opaque is None:
        yield _finish_stage(node, roles, after, changes, units=True, checks=True)
        return
    role = roles[0]
    if changes[role].units:
        yield _finish_stage(node, roles, after, changes, units=True, checks=False)
    kind = Deploy if opaque.opaque.engine == "pyinfra" else Ansible
    task = kind(
        f"opaque:{role}:{node}", node, Path(opaque.opaque.source), dict(opaque.opaque.inputs), _OPAQUE_TIMEOUT_S
    )
    yield Stage(role, roles, after, task, ())
    record = {"verb": "record", "role": role, "digest": opaque.opaque.digest}
    last = not changes[role].checks
    yield Stage(
        role, roles, (), Program(f"record:{role}:{node}", node, record, _FINISH_TIMEOUT_S), roles if last else ()
    )
    if not last:
        yield _finish_stage(node, roles, (), changes, units=False, checks=True)


def _finish_stage(
    node: str,
    roles: tuple[str, ...],
    after: tuple[tuple[str, str], ...],
    changes: Mapping[str, Change],
    *,
    units: bool,
    checks: bool,
) -> Stage:
    work = [
        {
            "role": role,
            "needs": [need.role for need in changes[role].needs if need.nodes == (node,)],
            "units": [{"name": u.name, "actions": list(u.actions)} for u in changes[role].units] if units else [],
            "checks": [dataclasses.asdict(check) for check in changes[role].checks] if checks else [],
        }
        for role in roles
    ]
    request = {"verb": "converge", "phase": "finish", "work": work}
    task = Program(f"finish:{roles[0]}:{'units' if units else 'checks'}:{node}", node, request, _FINISH_TIMEOUT_S)
    return Stage("units and checks", roles, after, task, roles if checks else ())
