"""`hpcforge schema`: the blueprint's JSON Schema, for editors, and that of designs, for programs."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Literal

import typer

from hpcforge.blueprint import schema as blueprint
from hpcforge.blueprint.reference import reference
from hpcforge.cli.exit_codes import Exit
from hpcforge.facility import design


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge schema > blueprints/blueprint.schema.json")(schema)


def schema(
    of: Annotated[Literal["blueprint", "design"], typer.Argument(help="Blueprints, or design --json.")] = "blueprint",
    markdown: Annotated[bool, typer.Option("--markdown", help="A reference for people instead.")] = False,
) -> int:
    """Print the JSON Schema of blueprints, or of `design --json`; a description stands on every field."""
    chosen = blueprint.json_schema() if of == "blueprint" else design.json_schema()
    sys.stdout.write(reference(chosen) if markdown else json.dumps(chosen, indent=2) + "\n")
    return Exit.DONE
