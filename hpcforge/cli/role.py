"""`hpcforge role`: create and check a site's own roles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson
from hpcforge.cli.verb import VerbGroup
from hpcforge.errors import UsageError
from hpcforge.report import printing

if TYPE_CHECKING:
    from hpcforge.plan.role_check import CheckedRole

role = VerbGroup()


@dataclass(frozen=True, kw_only=True)
class RoleNewOptions:
    """Options of `hpcforge role new`."""

    name: Annotated[
        str, typer.Argument(help="Its name: lower-case letters, digits and _, a letter first.", show_default=False)
    ]
    folder: Annotated[Path, typer.Option("--in", help="The folder of roles to create it in.", metavar="FOLDER")] = Path(
        "roles"
    )
    kind: Annotated[
        Literal["data", "pyinfra", "ansible"],
        typer.Option(help="Its form: role.yaml only, with deploy.py, or with tasks/main.yml."),
    ] = "data"


@dataclass(frozen=True, kw_only=True)
class RoleCheckOptions:
    """Options of `hpcforge role check`."""

    folder: Annotated[Path, typer.Argument(help="The folder of a role, or a folder of roles.", show_default=False)]
    blueprint: Annotated[
        Path | None,
        typer.Option(
            help="Render the roles for this cluster. Default: the shipped blueprints/rehearsal.yaml.",
            metavar="FILE",
            show_default=False,
            autocompletion=completion.blueprints,
        ),
    ] = None
    as_json: AsJson = False


@role.verb(epilog="Example: hpcforge role new scratch --in roles")
def new(options: RoleNewOptions) -> int:
    """Create a small, valid role with comments. Never overwrites a file."""
    from hpcforge import bundled
    from hpcforge.blueprint.role_declarations import A_ROLE_NAME, ROLE_NAME
    from hpcforge.plan.roles.skeleton import skeleton

    name, target = options.name, options.folder / options.name
    if not ROLE_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid role name", A_ROLE_NAME)
    if (bundled.roles() / name).is_dir():
        raise UsageError(f"hpcforge already has a role {name}", "choose another name")
    if target.exists():
        raise UsageError(f"{target} already exists; nothing was written", "choose another name, or edit it")
    for path, text in skeleton(name, options.kind).items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, "utf-8")
        printing.result(f"{target / path}\n")
    printing.note(f"Next, after your changes: hpcforge role check {target}\n")
    return Exit.DONE


@role.verb(epilog="Example: hpcforge role check roles/scratch --blueprint site.yaml")
def check(options: RoleCheckOptions) -> int:
    """Check roles: keys, expressions, rendered templates, paths, checks, and what is removed with the role."""
    from hpcforge import bundled
    from hpcforge.blueprint.diagnostics import render_all
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.cluster import load
    from hpcforge.plan.role_check import judge, role_folders
    from hpcforge.plan.roles.role import load_role

    folder = options.folder
    folders = role_folders(folder) if folder.is_dir() else []
    if not folders:
        raise UsageError(f"{folder} has no role", "name a folder with role.yaml, or a folder of such folders")
    path = options.blueprint or bundled.root() / "blueprints" / "rehearsal.yaml"
    loaded = load(path)
    checked = {folder.resolve() for folder in folders}
    others = [
        role_folder
        for place in loaded.role_folders
        for role_folder in role_folders(place)
        if role_folder.resolve() not in checked
    ]
    judged = judge(folders, [load_role(role_folder) for role_folder in others], loaded.cluster)
    code = Exit.DONE if all(judgement.right for judgement in judged) else Exit.INVALID
    if options.as_json:
        printing.result(_json(judged))
        return code
    printing.note(render_all(entry for judgement in judged for entry in judgement.diagnostics))
    for judgement in judged:
        on = f", on {fold(judgement.nodes)} of {path.name}" if judgement.nodes else ""
        printing.result(f"{judgement.folder.name}: {'right' if judgement.right else 'wrong'}{on}\n")
    if code == Exit.DONE and folders[0].parent.resolve() not in {
        role_folder.resolve() for role_folder in loaded.role_folders
    }:
        printing.note(f"Next, in the blueprint that uses it: role_folders: [{folders[0].parent}]\n")
    return code


def _json(judged: Sequence[CheckedRole]) -> str:
    from hpcforge.blueprint.diagnostics import to_json, within_limits

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
