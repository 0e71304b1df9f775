"""`hpcforge schema`: JSON Schemas of hpcforge's files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.verb import verb
from hpcforge.errors import UsageError
from hpcforge.report import printing

_Schema = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SchemaOptions:
    """Arguments of `hpcforge schema`."""

    of: Annotated[
        Literal["blueprint", "inventory", "design", "smoke-test", "role", "verification"],
        typer.Argument(help="Blueprints, inventories, design --json, smoke tests, role.yaml or verify --json."),
    ] = "blueprint"
    blueprint: Annotated[
        Path | None,
        typer.Argument(
            help="With `blueprint`: also accept the models and roles of this blueprint.",
            show_default=False,
            autocompletion=completion.blueprints,
        ),
    ] = None


@verb(epilog="Example: hpcforge schema > blueprints/blueprint.schema.json")
def schema(options: SchemaOptions) -> int:
    """Schemas: blueprint, inventory, `design --json`, smoke tests, role.yaml, `verify --json`."""
    from hpcforge.blueprint.editor_schema import for_editors

    kind = options.of
    if options.blueprint is not None and kind != "blueprint":
        raise UsageError(
            f"only the schema of blueprints depends on a blueprint, not that of {kind}", f"hpcforge schema {kind}"
        )
    made = _made(kind, options.blueprint)
    if kind not in ("design", "verification"):  # hpcforge writes these itself
        made = for_editors(made, empty=kind != "role")
    printing.result(json.dumps(made, indent=2) + "\n")
    return Exit.DONE


def _made(kind: str, path: Path | None) -> _Schema:
    from pydantic import TypeAdapter

    from hpcforge.blueprint import inventory
    from hpcforge.blueprint.schema import smoke_test_schema
    from hpcforge.cluster import design
    from hpcforge.plan.roles.spec import json_schema as role_schema
    from hpcforge.report.verification import Report

    made: dict[str, Callable[[], _Schema]] = {
        "blueprint": lambda: _blueprint(path),
        "inventory": inventory.json_schema,
        "design": design.json_schema,
        "smoke-test": smoke_test_schema,
        "role": role_schema,
        "verification": lambda: TypeAdapter(Report).json_schema(mode="serialization"),
    }
    return made[kind]()


def _blueprint(path: Path | None) -> _Schema:
    """Return the schema for the shipped catalog, roles and smoke tests, and for those that this blueprint adds."""
    from hpcforge import bundled
    from hpcforge.blueprint import schema as blueprint
    from hpcforge.blueprint.role_declarations import read_declared
    from hpcforge.blueprint.smoke_tests import load_smoke_tests
    from hpcforge.catalog import load_catalog
    from hpcforge.cluster.load import folders_of, own_models

    roles, tests = folders_of(path) if path else ([bundled.roles()], [bundled.smoke_tests()])
    own = own_models(path) if path else {}
    names = {table: (*models, *own.get(table, ())) for table, models in load_catalog().names().items()}
    return blueprint.json_schema(read_declared(*roles), load_smoke_tests(*tests), names)
