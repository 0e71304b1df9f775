"""`hpcforge schema`: JSON Schemas of hpcforge's files, and a table of what changing a blueprint field disrupts."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from hpcforge import bundled
from hpcforge.blueprint import inventory
from hpcforge.blueprint import schema as blueprint
from hpcforge.blueprint.editor_schema import for_editors
from hpcforge.blueprint.reference import reference
from hpcforge.blueprint.role_declarations import read_declared
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from hpcforge.catalog import load_catalog
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import design, load
from hpcforge.cluster.load import folders_of, own_models
from hpcforge.errors import UsageError
from hpcforge.plan.role import load_roles
from hpcforge.plan.role_spec import json_schema as role_schema
from hpcforge.report import printing
from hpcforge.report.disruption_table import disruption_table
from hpcforge.report.role_reference import role_reference
from hpcforge.report.verification import Report


def _blueprint(path: Path | None, *, for_people: bool) -> dict[str, Any]:
    """By the shipped catalog, roles and smoke tests, and by what this blueprint adds to them.

    Editors offer names of the catalog; a table for people says only what a name is of.
    """
    roles, tests = folders_of(path) if path else ([bundled.roles()], [bundled.smoke_tests()])
    own = own_models(path) if path else {}
    catalog = {} if for_people else load_catalog().names()
    names = {table: (*known, *own.get(table, ())) for table, known in catalog.items()}
    return blueprint.json_schema(read_declared(*roles), load_smoke_tests(*tests), names)


def schema(
    of: Literal["blueprint", "inventory", "design", "smoke-test", "disruption", "role", "verification"],
    path: Path | None,
    markdown: bool,
) -> int:
    """Run `hpcforge schema`. Returns the exit status."""
    if path is not None and of != "blueprint":
        raise UsageError(
            f"only the schema of blueprints depends on a blueprint, not that of {of}", f"hpcforge schema {of}"
        )
    if of == "disruption":
        printing.result(disruption_table(load_roles(bundled.roles())))
        return Exit.DONE
    if of == "role" and markdown:
        rehearsal = load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster
        printing.result(role_reference(rehearsal, rehearsal.workers[0], load_roles(bundled.roles())))
        return Exit.DONE
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "blueprint": partial(_blueprint, path, for_people=markdown),
        "inventory": inventory.json_schema,
        "design": design.json_schema,
        "smoke-test": blueprint.smoke_test_schema,
        "role": role_schema,
        "verification": lambda: TypeAdapter(Report).json_schema(mode="serialization"),
    }
    chosen = made[of]()
    if not markdown and of not in ("design", "verification"):  # which hpcforge writes itself
        chosen = for_editors(chosen, empty=of != "role")
    words = ["hpcforge schema", *([of] if path or of != "blueprint" else []), *([str(path)] if path else [])]
    made_by = f"{' '.join(words)} --markdown"
    printing.result(reference(chosen, made_by) if markdown else json.dumps(chosen, indent=2) + "\n")
    return Exit.DONE
