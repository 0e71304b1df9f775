"""`hpcforge schema`: JSON Schemas of blueprints and designs, and a table of what changing a field disrupts."""

from __future__ import annotations

import json
from typing import Literal

from hpcforge import shipped
from hpcforge.blueprint import schema as blueprint
from hpcforge.blueprint.reference import reference
from hpcforge.cli.exit_codes import Exit
from hpcforge.facility import design
from hpcforge.plan.role import load_roles
from hpcforge.report import printing
from hpcforge.report.disruption_table import disruption_table


def schema(of: Literal["blueprint", "design", "disruption"], markdown: bool) -> int:
    """Do what the help of `hpcforge schema` says; the exit status."""
    if of == "disruption":
        printing.result(disruption_table(load_roles(shipped.root() / "roles")))
        return Exit.DONE
    chosen = blueprint.json_schema() if of == "blueprint" else design.json_schema()
    printing.result(reference(chosen) if markdown else json.dumps(chosen, indent=2) + "\n")
    return Exit.DONE
