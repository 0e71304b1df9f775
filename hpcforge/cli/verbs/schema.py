"""`hpcforge schema`: JSON Schemas of hpcforge's files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcforge.cli import completion


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Extend hpcforge", epilog="Example: hpcforge schema > blueprints/blueprint.schema.json"
    )(schema)


def schema(
    of: Annotated[
        Literal["blueprint", "inventory", "design", "smoke-test", "role", "verification"],
        typer.Argument(help="Blueprints, inventories, design --json, smoke tests, role.yaml or verify --json."),
    ] = "blueprint",
    blueprint: Annotated[
        Path | None,
        typer.Argument(
            help="For `blueprint`: also accept the models and roles of this blueprint.",
            show_default=False,
            autocompletion=completion.blueprints,
        ),
    ] = None,
) -> int:
    """Print JSON Schemas for editors.

    Schemas: blueprint, inventory, `design --json`, smoke tests, role.yaml, `verify --json`.
    """
    from hpcforge.cli import schema as work

    return work.schema(of, blueprint)
