"""`hpcforge role`: create and check a site's own roles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hpcforge import bundled
from hpcforge.blueprint.diagnostics import render_all, to_json, within_limits
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.role_declarations import A_ROLE_NAME, ROLE_NAME
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import load
from hpcforge.errors import UsageError
from hpcforge.plan.role_check import CheckedRole, judge, role_folders
from hpcforge.plan.roles.role import load_role
from hpcforge.plan.roles.skeleton import Kind, skeleton
from hpcforge.report import printing


def new(name: str, folder: Path, kind: Kind) -> int:
    """Run `hpcforge role new`. Returns the exit status."""
    if not ROLE_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid role name", A_ROLE_NAME)
    if (bundled.roles() / name).is_dir():
        raise UsageError(f"hpcforge already has a role {name}", "choose another name")
    target = folder / name
    if target.exists():
        raise UsageError(f"{target} already exists; nothing was written", "choose another name, or edit it")
    for path, text in skeleton(name, kind).items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, "utf-8")
        printing.result(f"{target / path}\n")
    printing.note(f"Next, after your changes: hpcforge role check {target}\n")
    return Exit.DONE


def check(folder: Path, blueprint: Path | None, as_json: bool) -> int:
    """Run `hpcforge role check`. Returns the exit status."""
    folders = role_folders(folder) if folder.is_dir() else []
    if not folders:
        raise UsageError(f"{folder} has no role", "name a folder with role.yaml, or a folder of such folders")
    path = blueprint or bundled.root() / "blueprints" / "rehearsal.yaml"
    loaded = load(path)
    asked = {folder.resolve() for folder in folders}
    others = [
        role_folder
        for place in loaded.role_folders
        for role_folder in role_folders(place)
        if role_folder.resolve() not in asked
    ]
    judged = judge(folders, [load_role(role_folder) for role_folder in others], loaded.cluster)
    code = Exit.DONE if all(judgement.right for judgement in judged) else Exit.INVALID
    if as_json:
        printing.result(_json(judged))
        return code
    printing.note(render_all(entry for judgement in judged for entry in judgement.diagnostics), "diagnostics")
    for judgement in judged:
        on = f", on {fold(judgement.nodes)} of {path.name}" if judgement.nodes else ""
        printing.result(f"{judgement.folder.name}: {'right' if judgement.right else 'wrong'}{on}\n")
    if code == Exit.DONE and folders[0].parent.resolve() not in {
        role_folder.resolve() for role_folder in loaded.role_folders
    }:
        printing.note(f"Next, in the blueprint that uses it: role_folders: [{folders[0].parent}]\n")
    return code


def _json(judged: Sequence[CheckedRole]) -> str:
    shown, more = within_limits(entry for judgement in judged for entry in judgement.diagnostics)
    roles = [
        {
            "role": judgement.folder.name,
            "folder": str(judgement.folder),
            "right": judgement.right,
            "nodes": list(judgement.nodes),
        }
        for judgement in judged
    ]
    entries = [to_json(diagnostic) for diagnostic in shown]
    return json.dumps({"schema_version": 1, "roles": roles, "diagnostics": entries, "not_shown": more}, indent=2) + "\n"
