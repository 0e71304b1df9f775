"""`hpcforge schema`: the blueprint's JSON Schema, for editors."""

from __future__ import annotations

import json
import sys

import typer

from hpcforge.blueprint.schema import json_schema
from hpcforge.cli.exit_codes import Exit


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge schema > blueprints/blueprint.schema.json")(schema)


def schema() -> int:
    """Print the JSON Schema of blueprints; a description stands on every field."""
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
    return Exit.DONE
