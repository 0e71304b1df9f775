"""`hpcforge role`: roles of a site's own, begun and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcforge.cli import completion, options

role = typer.Typer(help="Start a role of your own, or check one.")


def register(app: typer.Typer) -> None:
    """Add the verb and its own."""
    app.add_typer(role, name="role", no_args_is_help=True, rich_help_panel="Extend hpcforge")


@role.command(epilog="Example: hpcforge role new scratch --in roles")
def new(
    name: Annotated[
        str, typer.Argument(help="Its name: lower-case letters, digits and _, a letter first.", show_default=False)
    ],
    folder: Annotated[
        Path, typer.Option("--in", help="The folder of roles that gets a folder of its name.", metavar="FOLDER")
    ] = Path("roles"),
    kind: Annotated[
        Literal["data", "pyinfra", "ansible"],
        typer.Option(help="What it is made of: role.yaml alone, with a deploy.py, or with tasks/main.yml."),
    ] = "data",
) -> int:
    """Write a new role, small and right, with comments. What is there stays as it is."""
    from hpcforge.cli import role as work

    return work.new(name, folder, kind)


@role.command(epilog="Example: hpcforge role check roles/scratch --blueprint site.yaml")
def check(
    folder: Annotated[Path, typer.Argument(help="A role's folder, or a folder of roles.", show_default=False)],
    blueprint: Annotated[
        Path | None,
        typer.Option(
            help="Render them for this cluster. Default: the shipped blueprints/rehearsal.yaml.",
            metavar="FILE",
            show_default=False,
            autocompletion=completion.blueprints,
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Judge roles: spelling, expressions, templates rendered for a cluster, paths, checks, what goes with them."""
    from hpcforge.cli import role as work

    return work.check(folder, blueprint, as_json)
