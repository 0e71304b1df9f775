"""`hpcforge nodes`: add, remove and replace machines by editing the blueprint and its inventory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import completion, options

nodes = typer.Typer(
    help="Add, remove, replace or import nodes of a blueprint.\n\nKeeps comments and shows a diff before it writes."
)
_Names = Annotated[str, typer.Argument(help="The nodes, as a hostlist: w[04-06].", show_default=False)]
_Known = Annotated[
    str,
    typer.Argument(help="The nodes, as a hostlist: w[04-06].", show_default=False, autocompletion=completion.nodes),
]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before writing.")]
_HostKey = Annotated[
    list[str] | None,
    typer.Option(
        "--host-key",
        help="The machine's SSH host key, type and base64. Repeatable. If it is not known: apply --trust-new.",
        metavar="KEY",
        show_default=False,
    ),
]

_EACH = "Repeat for each node, in order. Written to the inventory."
_Mac = Annotated[
    list[str] | None,
    typer.Option("--mac", help=f"MAC address of the machine. {_EACH}", metavar="MAC", show_default=False),
]
_Bmc = Annotated[
    list[str] | None,
    typer.Option(
        "--bmc",
        help=f"Address or MAC address of its management controller, or both separated by a comma. {_EACH}",
        metavar="A",
        show_default=False,
    ),
]
_Serial = Annotated[
    list[str] | None,
    typer.Option("--serial", help=f"The maker's serial number. {_EACH}", metavar="S", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(nodes, name="nodes", no_args_is_help=True, rich_help_panel="Operate the cluster")


@nodes.command(epilog="Example: hpcforge nodes add blueprints/rehearsal.yaml w04")
def add(
    blueprint: options.Blueprint,
    names: _Names,
    like: Annotated[
        str | None,
        typer.Option(
            help="A node of the group that grows. Default: chosen by name.",
            metavar="NODE",
            show_default=False,
            autocompletion=completion.nodes,
        ),
    ] = None,
    addresses: Annotated[
        str | None,
        typer.Option(
            help="Their addresses, as a hostlist. Default: the next ones after the group's addresses.",
            metavar="A",
            show_default=False,
        ),
    ] = None,
    host_key: _HostKey = None,
    mac: _Mac = None,
    bmc: _Bmc = None,
    serial: _Serial = None,
    inventory: options.Inventory = None,
    yes: _Yes = False,
) -> int:
    """Add nodes to a group, and to partitions and tests that name the whole group."""
    from hpcforge.cli import nodes as work

    return work.add(
        blueprint=blueprint,
        names=names,
        like=like,
        addresses=addresses,
        host_key=host_key or (),
        mac=mac or (),
        bmc=bmc or (),
        serial=serial or (),
        inventory=inventory,
        yes=yes,
    )


@nodes.command(epilog="Example: hpcforge nodes remove blueprints/rehearsal.yaml w03")
def remove(blueprint: options.Blueprint, names: _Known, inventory: options.Inventory = None, yes: _Yes = False) -> int:
    """Remove nodes. The next apply drains them, waits for their jobs, and removes hpcforge's changes from them."""
    from hpcforge.cli import nodes as work

    return work.remove(blueprint, names, inventory, yes)


@nodes.command(epilog="Example: hpcforge nodes replace site.yaml gpu07 --host-key 'ssh-ed25519 AAAA...'")
def replace(
    blueprint: options.Blueprint,
    name: Annotated[str, typer.Argument(help="The node.", show_default=False, autocompletion=completion.nodes)],
    address: Annotated[
        str | None, typer.Option(help="Its address, if it changes.", metavar="A", show_default=False)
    ] = None,
    host_key: _HostKey = None,
    mac: _Mac = None,
    bmc: _Bmc = None,
    serial: _Serial = None,
    same: Annotated[
        bool,
        typer.Option(
            "--same-machine",
            help="The machine stays, and only its host keys go: `apply --install` then installs it again.",
        ),
    ] = False,
    inventory: options.Inventory = None,
    yes: _Yes = False,
) -> int:
    """Give a name to another machine. What the inventory has of the old one goes: host keys, MAC addresses, serial."""
    from hpcforge.cli import nodes as work

    return work.replace(
        blueprint=blueprint,
        name=name,
        address=address,
        host_key=host_key or (),
        mac=mac or (),
        bmc=bmc or (),
        serial=serial or (),
        same=same,
        inventory=inventory,
        yes=yes,
    )


@nodes.command("import", epilog="Example: hpcforge nodes import site.yaml machines.csv --dry-run")
def import_(
    blueprint: options.Blueprint,
    file: Annotated[
        Path,
        typer.Argument(
            help="Comma-separated values in UTF-8. The first line names the columns: node, mac, bmc_address, bmc_mac, "
            "serial. Others are not read.",
            metavar="FILE.csv",
            show_default=False,
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the diff, and write nothing.")] = False,
    inventory: options.Inventory = None,
    yes: _Yes = False,
    as_json: options.Json = False,
) -> int:
    """Add MAC addresses, controllers and serial numbers of a list to the inventory. Replaces nothing."""
    from hpcforge.cli import nodes as work

    return work.import_(blueprint=blueprint, file=file, inventory=inventory, dry_run=dry_run, yes=yes, as_json=as_json)
