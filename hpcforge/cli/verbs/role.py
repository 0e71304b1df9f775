"""`hpcforge role`: create and check a site's own roles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcforge.cli import completion, options

role = typer.Typer(help="Start a role of your own, or check one.")


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(role, name="role", no_args_is_help=True, rich_help_panel="Extend hpcforge")


@role.command(epilog="Example: hpcforge role new scratch --in roles")
def new(
    name: Annotated[
        str, typer.Argument(help="Its name: lower-case letters, digits and _, a letter first.", show_default=False)
    ],
    folder: Annotated[Path, typer.Option("--in", help="The folder of roles to create it in.", metavar="FOLDER")] = Path(
        "roles"
    ),
    kind: Annotated[
        Literal["data", "pyinfra", "ansible"],
        typer.Option(help="Its form: role.yaml only, with deploy.py, or with tasks/main.yml."),
    ] = "data",
) -> int:
    """Create a small, valid role with comments. Never overwrites a file."""
    from hpcforge.cli import role as work

    return work.new(name, folder, kind)


@role.command(epilog="Example: hpcforge role check roles/scratch --blueprint site.yaml")
def check(
    folder: Annotated[Path, typer.Argument(help="The folder of a role, or a folder of roles.", show_default=False)],
    blueprint: Annotated[
        Path | None,
        typer.Option(
            help="Render the roles for this cluster. Default: the shipped blueprints/rehearsal.yaml.",
            metavar="FILE",
            show_default=False,
            autocompletion=completion.blueprints,
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Check roles: keys, expressions, rendered templates, paths, checks, and what is removed with the role."""
    from hpcforge.cli import role as work

    return work.check(folder, blueprint, as_json)
