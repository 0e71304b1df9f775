"""`hpcforge explain`: the rules behind codes such as POWER-003, and the lines of smoke tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import completion, options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Write and check a blueprint",
        epilog="Examples: hpcforge explain POWER-003; hpcforge explain allreduce site.yaml",
    )(explain)


def explain(
    code: Annotated[
        str | None,
        typer.Argument(help="The code, such as POWER-003, or a smoke test. Default: all codes.", show_default=False),
    ] = None,
    blueprint: Annotated[
        Path | None,
        typer.Argument(
            help="The blueprint of that smoke test.",
            show_default=False,
            autocompletion=completion.blueprints,
            envvar=completion.IN_ENVIRONMENT,
        ),
    ] = None,
    inventory: options.Inventory = None,
    as_json: options.Json = False,
) -> int:
    """Explain a rule, as in POWER-003, or the lines of a smoke test.

    Prints what the rule compares, and what to do when it is broken. Of a smoke test: what each of its numbers will be
    compared with, and how catalog and fabric give that line. Contacts no node.
    """
    from hpcforge.cli import explain as work

    if code is None or blueprint is None or work.is_code(code):
        return work.explain(code, as_json)
    return work.explain_test(code, blueprint, inventory, as_json)
