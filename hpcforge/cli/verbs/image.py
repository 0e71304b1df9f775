"""`hpcforge image`: one image for all nodes of a blueprint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import completion, options

image = typer.Typer(
    help="Build, list and remove node images.\n\nAn image is a root archive with the packages of all roles. Needs root."
)


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(image, name="image", no_args_is_help=True, rich_help_panel="Rehearse on this machine")


@image.command(epilog="Example: hpcforge image build blueprints/rehearsal.yaml")
def build(
    blueprint: options.Blueprint,
    locked: Annotated[
        Path | None,
        typer.Option(
            "--locked",
            help="Use exactly the package versions of this manifest.json; the archive is then identical.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    disk: Annotated[
        bool,
        typer.Option("--disk", help="Add a kernel and build a disk for virtual machines (rehearse up --on vm)."),
    ] = False,
    metal: Annotated[
        bool,
        typer.Option("--metal", help="The same with a kernel that has the drivers of real machines (apply --install)."),
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Build one image with the packages of all roles and nodes of the blueprint. It contains no secrets.

    Builds nothing if an image with the same packages and versions exists.
    """
    from hpcforge.cli import image as work

    return work.build(blueprint, locked, as_json, disk=disk, metal=metal)


@image.command("list", epilog="Example: hpcforge image list")
def list_(as_json: options.Json = False) -> int:
    """List the images of this machine: distribution, packages, size, build time and blueprints."""
    from hpcforge.cli import image as work

    return work.list_(as_json)


@image.command(epilog="Example: hpcforge image remove rehearsal-3f2a9c1b")
def remove(
    name: Annotated[
        str, typer.Argument(help="Its name in `image list`.", show_default=False, autocompletion=completion.images)
    ],
) -> int:
    """Remove an image that no rehearsal uses, and the rest of an interrupted build."""
    from hpcforge.cli import image as work

    return work.remove(name)
