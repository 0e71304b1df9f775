"""`hpcforge role`: create and check a site's own roles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hpcforge import shipped
from hpcforge.blueprint.declared import A_ROLE_NAME, ROLE_NAME
from hpcforge.blueprint.diagnostics import render_all, to_json, within_limits
from hpcforge.blueprint.hostlist import fold
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import load
from hpcforge.errors import UsageError
from hpcforge.plan.role import load_role
from hpcforge.plan.role_check import Judged, judge, role_folders
from hpcforge.plan.skeleton import Kind, skeleton
from hpcforge.report import printing


def new(name: str, folder: Path, kind: Kind) -> int:
    """Run `hpcforge role new`. Returns the exit status."""
    if not ROLE_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid role name", A_ROLE_NAME)
    if (shipped.roles() / name).is_dir():
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
    path = blueprint or shipped.root() / "blueprints" / "rehearsal.yaml"
    loaded = load(path)
    asked = {one.resolve() for one in folders}
    others = [one for place in loaded.role_folders for one in role_folders(place) if one.resolve() not in asked]
    judged = judge(folders, [load_role(one) for one in others], loaded.cluster)
    code = Exit.DONE if all(one.right for one in judged) else Exit.INVALID
    if as_json:
        printing.result(_json(judged))
        return code
    printing.note(render_all(entry for one in judged for entry in one.diagnostics), "diagnostics")
    for one in judged:
        on = f", on {fold(one.nodes)} of {path.name}" if one.nodes else ""
        printing.result(f"{one.folder.name}: {'right' if one.right else 'wrong'}{on}\n")
    if code == Exit.DONE and folders[0].parent.resolve() not in {one.resolve() for one in loaded.role_folders}:
        printing.note(f"Next, in the blueprint that uses it: role_folders: [{folders[0].parent}]\n")
    return code


def _json(judged: Sequence[Judged]) -> str:
    shown, more = within_limits(entry for one in judged for entry in one.diagnostics)
    roles = [
        {"role": one.folder.name, "folder": str(one.folder), "right": one.right, "nodes": list(one.nodes)}
        for one in judged
    ]
    entries = [to_json(diagnostic) for diagnostic in shown]
    return json.dumps({"schema_version": 1, "roles": roles, "diagnostics": entries, "not_shown": more}, indent=2) + "\n"
