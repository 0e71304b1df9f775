"""`hpcforge netboot`: install nodes that boot from the network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import completion, options

netboot = typer.Typer(
    help="Install nodes that boot from the network.\n\nA node is installed only after `want` names it, once. Every "
    "other machine boots its own disk."
)
_Nodes = Annotated[
    str,
    typer.Argument(help="The nodes: a hostlist, a rack or a function.", autocompletion=completion.node_sets),
]


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(netboot, name="netboot", no_args_is_help=True, rich_help_panel="Operate the cluster")


@netboot.command(epilog="Example: hpcforge netboot want site.yaml w03 --wipe w03=S3Z8NX0K")
def want(
    blueprint: options.Blueprint,
    nodes: _Nodes,
    wipe: options.Wipe = None,
    image: options.Image = None,
    hours: Annotated[
        float, typer.Option("--hours", help="After this time it is no longer asked for.", min=0.1, max=720, metavar="H")
    ] = 24.0,
    inventory: options.Inventory = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    """Ask for the installation of nodes at their next network boot."""
    from hpcforge.cli import netboot as work

    return work.want(blueprint, inventory, nodes, wipe or (), image, hours, yes)


@netboot.command(epilog="Example: hpcforge netboot withdraw site.yaml w03")
def withdraw(blueprint: options.Blueprint, nodes: _Nodes, inventory: options.Inventory = None) -> int:
    """Ask no longer for the installation of nodes."""
    from hpcforge.cli import netboot as work

    return work.withdraw(blueprint, inventory, nodes)


@netboot.command(epilog="Example: hpcforge netboot serve site.yaml --key ~/.ssh/id_ed25519.pub")
def serve(
    blueprint: options.Blueprint,
    key: Annotated[
        Path,
        typer.Option("--key", help="The ssh key that nodes accept: a .pub file, or a private key.", metavar="FILE"),
    ],
    image: options.Image = None,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            help="This machine's address on the network where nodes boot. Default: the one it has there.",
            metavar="A",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", help="Port of HTTP.", min=1, max=65535, metavar="PORT")
    ] = options.HTTP_PORT,
    proxy_dhcp: options.ProxyDhcp = False,
    inventory: options.Inventory = None,
) -> int:
    """Serve DHCP, TFTP and HTTP until interrupted. Needs root."""
    from hpcforge.cli import netboot as work

    return work.serve(blueprint, inventory, key, image, address, port, proxy_dhcp)


@netboot.command(epilog="Example: hpcforge netboot status site.yaml --json")
def status(blueprint: options.Blueprint, inventory: options.Inventory = None, as_json: options.Json = False) -> int:
    """Show which nodes are to be installed, and how it went."""
    from hpcforge.cli import netboot as work

    return work.status(blueprint, inventory, as_json)


@netboot.command(epilog="Example: hpcforge netboot record site.yaml")
def record(blueprint: options.Blueprint, inventory: options.Inventory = None) -> int:
    """Write the host keys of installed nodes into the inventory, so that the first ssh contact is trusted."""
    from hpcforge.cli import netboot as work

    return work.record(blueprint, inventory)
