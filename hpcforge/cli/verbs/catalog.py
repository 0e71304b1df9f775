"""`hpcforge catalog`: the hardware that hpcforge knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import completion, options

catalog = typer.Typer(help="List, show and search the hardware that hpcforge knows.")


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(catalog, name="catalog", no_args_is_help=True, rich_help_panel="Write and check a blueprint")


_Kind = Annotated[
    str | None,
    typer.Argument(
        help="servers, gpus, cpus, nics, drives, switches, cables, racks, pdus or ups. Default: all.",
        metavar="[KIND]",
        show_default=False,
        autocompletion=completion.catalog_kinds,
    ),
]


@catalog.command("list", epilog="Example: hpcforge catalog list gpus")
def list_(kind: _Kind = None, as_json: options.Json = False) -> int:
    """List the models of a kind, with a sentence for each."""
    from hpcforge.cli import catalog as work

    return work.list_(kind, as_json)


@catalog.command(epilog="Example: hpcforge catalog show dgx-h100")
def show(
    model: Annotated[
        str,
        typer.Argument(help="A model's name.", show_default=False, autocompletion=completion.catalog_models),
    ],
    as_json: options.Json = False,
) -> int:
    """Show the facts of a model, and the source of each. What is not listed is unknown."""
    from hpcforge.cli import catalog as work

    return work.show(model, as_json)


@catalog.command(epilog="Example: hpcforge catalog new servers our-8u --like dgx-h100")
def new(
    kind: Annotated[
        str,
        typer.Argument(
            help="servers, gpus, cpus, nics, drives, switches, cables, racks, pdus or ups.",
            metavar="KIND",
            show_default=False,
            autocompletion=completion.catalog_kinds,
        ),
    ],
    name: Annotated[str, typer.Argument(help="The model's name.", show_default=False)],
    folder: Annotated[
        Path, typer.Option("--in", help="The folder of the blueprint.", metavar="FOLDER", exists=True, file_okay=False)
    ] = Path(),
    like: Annotated[
        str | None,
        typer.Option(
            help="The model to start from.",
            metavar="MODEL",
            show_default=False,
            autocompletion=completion.catalog_models,
        ),
    ] = None,
) -> int:
    """Begin a model that the catalog lacks, as a file that a blueprint includes. Never overwrites a file."""
    from hpcforge.cli import catalog as work

    return work.new(kind, name, folder, like)


@catalog.command(epilog="Example: hpcforge catalog search h100 pcie")
def search(
    words: Annotated[list[str], typer.Argument(help="Words of the name, the description or a fact.")],
    as_json: options.Json = False,
) -> int:
    """Find the models that have all of these words. Exit code 1 if none has."""
    from hpcforge.cli import catalog as work

    return work.search(words, as_json)
