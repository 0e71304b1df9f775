"""`hpcforge inventory`: the machines of a blueprint, for people and for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import options

Blueprint = Annotated[
    Path | None,
    typer.Argument(
        help="The blueprint, a YAML file. Default: the shipped rehearsal.",
        show_default=False,
        envvar="HPCFORGE_BLUEPRINT",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Describe and design", epilog="Example: hpcforge inventory --json blueprints/dgx-h100-unit.yaml"
    )(inventory)


def inventory(
    blueprint: Blueprint = None,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    as_json: options.Json = False,
) -> int:
    """Print the machines of a blueprint: addresses, MACs, BMCs, serials, hardware, groups. Contacts no node.

    inventory/for_ansible.py and inventory/for_pyinfra.py give them to plain Ansible and pyinfra.
    """
    from hpcforge.cli import inventory as work

    return work.inventory(blueprint, inventory, lab, as_json)
