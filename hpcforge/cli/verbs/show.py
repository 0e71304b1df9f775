"""`hpcforge show`: the cluster as resolved, every default applied."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Write and check a blueprint",
        epilog="Example: hpcforge show blueprints/rehearsal.yaml",
    )(show)


Nccl = Annotated[
    bool,
    typer.Option(
        "--nccl",
        help="Show the NCCL and UCX settings for the fabrics instead, with reasons and sources, and the settings "
        "left to the libraries.",
    ),
]


def show(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    full: Annotated[bool, typer.Option("--full", help="Show every value of every node, as YAML.")] = False,
    nccl: Nccl = False,
    as_json: options.Json = False,
) -> int:
    """Show the cluster with every default applied.

    Contacts no node. Nodes that are alike share one row.
    """
    from hpcforge.cli import show as work

    return work.show_nccl(blueprint, inventory, as_json) if nccl else work.show(blueprint, inventory, full, as_json)
