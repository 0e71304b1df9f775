"""`hpcforge validate`: check a blueprint and its inventory."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Write and check a blueprint",
        epilog="Example: hpcforge validate blueprints/rehearsal.yaml",
    )(validate)


def validate(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    every: Annotated[bool, typer.Option("--all", help="Show each fact that is not checked, with its line.")] = False,
    as_json: options.Json = False,
) -> int:
    """Check blueprint and inventory; show every error with its line.

    Contacts no node.
    """
    from hpcforge.cli import validate as work

    return work.validate(blueprint, inventory, as_json, every)
