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
    """Add the verb and its own."""
    app.add_typer(image, name="image", no_args_is_help=True, rich_help_panel="Rehearse on this machine")


@image.command(epilog="Example: hpcforge image build blueprints/rehearsal.yaml")
def build(
    blueprint: options.Blueprint,
    locked: Annotated[
        Path | None,
        typer.Option(
            "--locked",
            help="Exactly the package versions of this manifest.json, so that the archive is the same bit for bit.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    disk: Annotated[
        bool,
        typer.Option(
            "--disk", help="With a kernel, and a disk made of it: what virtual machines boot (rehearse up --on vm)."
        ),
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Have an image of what the blueprint's nodes install, all roles of all nodes in one. Secrets are in none.

    Where an image of the same packages and versions is there already, nothing is built.
    """
    from hpcforge.cli import image as work

    return work.build(blueprint, locked, as_json, disk=disk)


@image.command("list", epilog="Example: hpcforge image list")
def list_(as_json: options.Json = False) -> int:
    """List the images of this machine: distribution, packages, size, when they were built and for which blueprints."""
    from hpcforge.cli import image as work

    return work.list_(as_json)


@image.command(epilog="Example: hpcforge image remove rehearsal-3f2a9c1b")
def remove(
    name: Annotated[
        str, typer.Argument(help="As `image list` has it.", show_default=False, autocompletion=completion.images)
    ],
) -> int:
    """Remove an image that no rehearsal lies on, and what a build that was cut off has left."""
    from hpcforge.cli import image as work

    return work.remove(name)
