"""`hpcforge trust`: confirm a machine that only the head's node list knows."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Operate the cluster",
        epilog="Example: hpcforge trust blueprints/rehearsal.yaml w03",
    )(trust)


def trust(
    blueprint: options.Blueprint,
    node: Annotated[str, typer.Argument(help="A node that was removed from the blueprint.", show_default=False)],
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    """Confirm the machine of a removed node, so it can be cleaned up.

    The next apply then logs in there and removes what hpcforge installed.
    """
    from hpcforge.cli import trust as work

    return work.trust(blueprint, node, inventory, lab, yes)
