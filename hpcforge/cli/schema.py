"""`hpcforge schema`: JSON Schemas of blueprints and designs, and a table of what changing a field disrupts."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from hpcforge import shipped
from hpcforge.blueprint import schema as blueprint
from hpcforge.blueprint.reference import reference
from hpcforge.cli.exit_codes import Exit
from hpcforge.facility import design
from hpcforge.plan.disruption_table import disruption_table
from hpcforge.plan.role import load_roles
from hpcforge.report import printing


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge schema > blueprints/blueprint.schema.json")(schema)


def schema(
    of: Annotated[
        Literal["blueprint", "design", "disruption"],
        typer.Argument(help="Blueprints, design --json, or what a change of a blueprint's field disrupts."),
    ] = "blueprint",
    markdown: Annotated[bool, typer.Option("--markdown", help="A reference for people instead.")] = False,
) -> int:
    """Print the JSON Schema of blueprints, or of `design --json`; a description stands on every field.

    `disruption` is a table for people: a row a field of the blueprint, and what changing it disrupts.
    """
    if of == "disruption":
        printing.result(disruption_table(load_roles(shipped.root() / "roles")))
        return Exit.DONE
    chosen = blueprint.json_schema() if of == "blueprint" else design.json_schema()
    printing.result(reference(chosen) if markdown else json.dumps(chosen, indent=2) + "\n")
    return Exit.DONE
