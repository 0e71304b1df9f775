"""`hpcforge schema`: JSON Schemas of our files, and a table of what changing a field of a blueprint disrupts."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(rich_help_panel="Live with it", epilog="Example: hpcforge schema > blueprints/blueprint.schema.json")(
        schema
    )


def schema(
    of: Annotated[
        Literal["blueprint", "inventory", "design", "disruption", "role"],
        typer.Argument(
            help="Blueprints, inventories, design --json, what a change of a blueprint's field disrupts, or role.yaml."
        ),
    ] = "blueprint",
    markdown: Annotated[bool, typer.Option("--markdown", help="A reference for people instead.")] = False,
) -> int:
    """Print the JSON Schema of blueprints, inventories, `design --json` or role.yaml, each field described.

    `disruption` is a table for people: a row a field of the blueprint, and what changing it disrupts.
    """
    from hpcforge.cli import schema as work

    return work.schema(of, markdown)
