"""`hpcforge pin`: keep rack positions."""

from __future__ import annotations

import typer

from hpcforge.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Write and check a blueprint", epilog="Example: hpcforge pin blueprints/dgx-h100-unit.yaml"
    )(pin)


def pin(blueprint: options.Blueprint, inventory: options.Inventory = None) -> int:
    """Write rack positions into the inventory.

    Machines added or removed later then move no other machine.
    """
    from hpcforge.cli import pin as work

    return work.pin(blueprint, inventory)
