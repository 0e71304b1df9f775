"""`hpcforge schema`: the blueprint's JSON Schema, for editors."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from hpcforge.blueprint.reference import reference
from hpcforge.blueprint.schema import json_schema
from hpcforge.cli.exit_codes import Exit


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge schema > blueprints/blueprint.schema.json")(schema)


def schema(
    markdown: Annotated[bool, typer.Option("--markdown", help="A reference for people instead.")] = False,
) -> int:
    """Print the JSON Schema of blueprints; a description stands on every field."""
    found = json_schema()
    sys.stdout.write(reference(found) if markdown else json.dumps(found, indent=2) + "\n")
    return Exit.DONE
