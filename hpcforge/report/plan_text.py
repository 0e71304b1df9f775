"""A plan as text: per step the nodes, folded, and what would change on them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from hpcforge.blueprint.hostlist import fold
from hpcforge.plan.plan import Change, FileChange, Plan
from hpcforge.report.text import clean, plural


def plan_text(plan: Plan, *, new_files: bool = False) -> str:
    """The whole plan. `new_files` shows the content of files that are not there yet, too."""
    lines: list[str] = []
    if plan.first_contact:
        lines += [f"first contact  {fold(plan.first_contact)}", "  + python3 (missing)", ""]
    for step in plan.steps:
        for nodes, body in _alike(step.changes, plan.texts, new_files).items():
            lines += [f"{step.role}  {nodes}", *body, ""]
    if plan.drains:
        lines.append(f"scheduling  {plan.controller}")
        lines += [f"  ~ {one.action} {one.node}: {clean(one.reason)}" for one in plan.drains]
        lines.append("")
    lines += _notes(plan)
    lines.append(_summary(plan))
    return "\n".join(lines) + "\n"


def _alike(changes: Mapping[str, Change], texts: Mapping[str, str], new_files: bool) -> dict[str, list[str]]:
    """Bodies by folded node set: nodes whose change reads the same are shown once."""
    by_body: dict[tuple[str, ...], list[str]] = {}
    for node, change in changes.items():
        by_body.setdefault(tuple(_body(change, texts, new_files)), []).append(node)
    return {fold(tuple(nodes)): list(body) for body, nodes in by_body.items()}


def _body(change: Change, texts: Mapping[str, str], new_files: bool) -> Iterator[str]:
    if change.packages:
        yield f"  + packages {' '.join(change.packages)}"
    for account in change.accounts:
        yield f"  ~ account {account.name} (uid {account.uid})"
    for directory in change.directories:
        yield f"  ~ directory {directory.path}  {directory.mode} {directory.owner}:{directory.group}"
    for file in change.files:
        yield from _file(file, texts, new_files)
    for unit in change.units:
        yield f"  ~ unit {unit.name}: {', '.join(unit.actions)} ({clean(unit.reason)})"
    if change.opaque:
        opaque = change.opaque.opaque
        watched = "" if change.checks else "; no checks: drift inside it is not watched"
        yield f"  ! run {opaque.engine} code {opaque.digest[:12]} ({clean(change.opaque.reason)}{watched})"
    for name, detail in change.failed_checks:
        yield f"  ! check failed: {name}: {clean(detail)}"


def _file(change: FileChange, texts: Mapping[str, str], new_files: bool) -> Iterator[str]:
    file = change.file
    owned = f"{file.mode} {file.owner}:{file.group}"
    if not change.exists:
        yield f"  + file {file.path}  {owned}{'  (secret)' if file.secret else ''}"
        if not (new_files and file.secret is None):
            return
    elif change.same_content:
        yield f"  ~ file {file.path}  {change.old_mode} {change.old_owner}:{change.old_group} -> {owned}"
        return
    else:
        yield f"  ~ file {file.path}  {owned}{'  (secret)' if file.secret else ''}"
    if file.secret is None and file.digest is not None:
        if change.exists and change.old_text is None:
            yield "      (what is there is not text, or too long to show)"
            return
        old, new = (change.old_text or "").splitlines(), texts[file.digest].splitlines()
        for line in difflib.unified_diff(old, new, "on the node", "wanted", lineterm="", n=2):
            yield f"      {clean(line)}"


def _notes(plan: Plan) -> Iterator[str]:
    for one in plan.shortfalls:
        yield f"{one.node} falls short: {one.what} {one.observed}, declared {one.declared}; it will be drained."
        yield f"  to accept it, add to overrides:  {one.override}"
    for node, reason in plan.unreachable.items():
        yield f"{node} is unreachable and left out: {clean(reason)}"


def _summary(plan: Plan) -> str:
    untouched = [node for node in plan.nodes if node not in plan.touched and node not in plan.unreachable]
    if not plan.pending:
        return f"Nothing to do on {plural(len(untouched), 'node')}." if untouched else "No node answers."
    parts = []
    if plan.touched:
        parts.append(f"{plural(len(plan.touched), 'node')} to change: {fold(plan.touched)}")
    if untouched:
        parts.append(f"unchanged: {fold(tuple(untouched))}")
    if plan.drains:
        parts.append(f"{plural(len(plan.drains), 'scheduling change')}")
    return "; ".join(parts) + "."
