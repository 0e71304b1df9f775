"""`hpcforge schema`: JSON Schemas of hpcforge's files."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from hpcforge import bundled
from hpcforge.blueprint import inventory
from hpcforge.blueprint.editor_schema import for_editors
from hpcforge.blueprint.role_declarations import read_declared
from hpcforge.blueprint.schema import json_schema, smoke_test_schema
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from hpcforge.catalog import load_catalog
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import design
from hpcforge.cluster.load import folders_of, own_models
from hpcforge.errors import UsageError
from hpcforge.plan.roles.spec import json_schema as role_schema
from hpcforge.report import printing
from hpcforge.report.verification import Report


def _blueprint(path: Path | None) -> dict[str, Any]:
    """By the shipped catalog, roles and smoke tests, and by what this blueprint adds to them."""
    roles, tests = folders_of(path) if path else ([bundled.roles()], [bundled.smoke_tests()])
    own = own_models(path) if path else {}
    names = {table: (*known, *own.get(table, ())) for table, known in load_catalog().names().items()}
    return json_schema(read_declared(*roles), load_smoke_tests(*tests), names)


def schema(
    of: Literal["blueprint", "inventory", "design", "smoke-test", "role", "verification"],
    path: Path | None,
) -> int:
    """Run `hpcforge schema`. Returns the exit status."""
    if path is not None and of != "blueprint":
        raise UsageError(
            f"only the schema of blueprints depends on a blueprint, not that of {of}", f"hpcforge schema {of}"
        )
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "blueprint": partial(_blueprint, path),
        "inventory": inventory.json_schema,
        "design": design.json_schema,
        "smoke-test": smoke_test_schema,
        "role": role_schema,
        "verification": lambda: TypeAdapter(Report).json_schema(mode="serialization"),
    }
    chosen = made[of]()
    if of not in ("design", "verification"):  # which hpcforge writes itself
        chosen = for_editors(chosen, empty=of != "role")
    printing.result(json.dumps(chosen, indent=2) + "\n")
    return Exit.DONE
