"""`hpcforge inventory`: the machines of a blueprint, for people and for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import completion, options

Blueprint = Annotated[
    Path | None,
    typer.Argument(
        help="The blueprint, a YAML file. Default: the only one of this folder, else the shipped rehearsal.",
        show_default=False,
        autocompletion=completion.blueprints,
        envvar=completion.IN_ENVIRONMENT,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Write and check a blueprint",
        epilog="Example: hpcforge inventory site.yaml --ssh-config > ssh_config; ssh -F ssh_config w01",
    )(inventory)


def inventory(
    blueprint: Blueprint = None,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    as_json: options.Json = False,
    ssh_config: Annotated[
        bool, typer.Option("--ssh-config", help="Print a configuration of OpenSSH: users, jump host, host keys.")
    ] = False,
    ansible: Annotated[
        bool, typer.Option("--ansible", help="Print an inventory of Ansible, to be a .yml file.")
    ] = False,
    clustershell: Annotated[
        bool, typer.Option("--clustershell", help="Print groups of ClusterShell: @worker, @rack:r1, @hardware:MODEL.")
    ] = False,
    genders: Annotated[bool, typer.Option("--genders", help="Print a genders file, as pdsh -g reads it.")] = False,
) -> int:
    """List machines: addresses, MACs, BMCs, serials, hardware, groups.

    Contacts no node. Other tools get the same machines: docs/operations.md.
    """
    from hpcforge.cli import inventory as work

    printed = {
        "json": as_json, "ssh-config": ssh_config, "ansible": ansible, "clustershell": clustershell, "genders": genders
    }  # fmt: skip
    return work.inventory(blueprint, inventory, lab, [name for name, chosen in printed.items() if chosen])
