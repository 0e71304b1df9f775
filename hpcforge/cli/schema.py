"""`hpcforge schema`: JSON Schemas of our files, and a table of what changing a field of a blueprint disrupts."""

from __future__ import annotations

import json
from typing import Any, Literal

from hpcforge import shipped
from hpcforge.blueprint import inventory
from hpcforge.blueprint import schema as blueprint
from hpcforge.blueprint.declared import read_declared
from hpcforge.blueprint.reference import reference
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import design
from hpcforge.plan.role import load_roles
from hpcforge.report import printing
from hpcforge.report.disruption_table import disruption_table


def _blueprint() -> dict[str, Any]:
    return blueprint.json_schema(read_declared(shipped.roles()))


def schema(of: Literal["blueprint", "inventory", "design", "disruption"], markdown: bool) -> int:
    """Do what the help of `hpcforge schema` says; the exit status."""
    if of == "disruption":
        printing.result(disruption_table(load_roles(shipped.roles())))
        return Exit.DONE
    made = {"blueprint": _blueprint, "inventory": inventory.json_schema, "design": design.json_schema}
    chosen = made[of]()
    made_by = "hpcforge schema --markdown" if of == "blueprint" else f"hpcforge schema {of} --markdown"
    printing.result(reference(chosen, made_by) if markdown else json.dumps(chosen, indent=2) + "\n")
    return Exit.DONE
