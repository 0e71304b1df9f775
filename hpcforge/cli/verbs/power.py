"""`hpcforge power`: switch nodes on and off by their management controllers."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import completion, options

power = typer.Typer(
    help="Switch nodes on and off, and choose what they boot.\n\nRedfish, or IPMI. Each verb reads the state "
    "afterwards. The inventory has the controllers' addresses; the password is the secret bmc_password."
)
_Nodes = Annotated[
    str | None,
    typer.Argument(
        help="The nodes: a hostlist, a partition, a rack or a function.",
        show_default=False,
        autocompletion=completion.node_sets,
    ),
]
_All = Annotated[
    bool, typer.Option("--all", help="All nodes, in order: storage, head, login, workers; off in reverse.")
]
_Force = Annotated[
    str | None,
    typer.Option(
        "--force",
        help="These nodes even if jobs run on them or need them: node names, as a hostlist.",
        metavar="NODES",
        show_default=False,
    ),
]
_Hard = Annotated[bool, typer.Option("--hard", help="Switch off at once, not by the operating system.")]
_Wait = Annotated[
    float,
    typer.Option("--wait", help="Seconds within which a node must reach the state.", min=1, max=3600, metavar="S"),
]
_Pause = Annotated[
    float, typer.Option("--pause", help="Seconds between nodes that start in turn.", min=0, max=600, metavar="S")
]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(power, name="power", no_args_is_help=True, rich_help_panel="Operate the cluster")


@power.command(epilog="Example: hpcforge power status site.yaml --json")
def status(
    blueprint: options.Blueprint,
    nodes: _Nodes = None,
    inventory: options.Inventory = None,
    identity: options.Identity = None,
    as_json: options.Json = False,
) -> int:
    """Show power state and next boot of each node. Changes nothing."""
    from hpcforge.cli import power as work

    asked = work.Asked(blueprint, inventory, identity, nodes, nodes is None, as_json)
    return work.run(asked, work.Wish("status"))


@power.command(epilog="Example: hpcforge power on site.yaml --all --yes")
def on(
    blueprint: options.Blueprint,
    nodes: _Nodes = None,
    all_nodes: _All = False,
    without_feed: Annotated[
        list[str] | None,
        typer.Option(
            "--without-feed",
            help="A power feed that has failed: only as many nodes start as the others carry. Repeatable.",
            metavar="FEED",
            show_default=False,
        ),
    ] = None,
    pause: _Pause = 5.0,
    wait: _Wait = 180.0,
    inventory: options.Inventory = None,
    identity: options.Identity = None,
    yes: _Yes = False,
    as_json: options.Json = False,
) -> int:
    """Switch nodes on, in turns that racks, PDUs and feeds of the design carry."""
    from hpcforge.cli import power as work

    asked = work.Asked(
        blueprint, inventory, identity, nodes, all_nodes, as_json, yes, pause_s=pause, lost=tuple(without_feed or ())
    )
    return work.run(asked, work.Wish("on", limit_s=wait))


@power.command(epilog="Example: hpcforge power off site.yaml w03")
def off(
    blueprint: options.Blueprint,
    nodes: _Nodes = None,
    all_nodes: _All = False,
    hard: _Hard = False,
    force: _Force = None,
    wait: _Wait = 180.0,
    inventory: options.Inventory = None,
    identity: options.Identity = None,
    yes: _Yes = False,
    as_json: options.Json = False,
) -> int:
    """Shut nodes down. A node with jobs is left alone."""
    from hpcforge.cli import power as work

    asked = work.Asked(blueprint, inventory, identity, nodes, all_nodes, as_json, yes, force)
    return work.run(asked, work.Wish("off", hard=hard, limit_s=wait))


@power.command(epilog="Example: hpcforge power cycle site.yaml w03 --hard --force w03")
def cycle(
    blueprint: options.Blueprint,
    nodes: _Nodes = None,
    hard: _Hard = False,
    force: _Force = None,
    pause: _Pause = 5.0,
    wait: _Wait = 180.0,
    inventory: options.Inventory = None,
    identity: options.Identity = None,
    yes: _Yes = False,
    as_json: options.Json = False,
) -> int:
    """Switch nodes off, see that they are off, and switch them on again. A node with jobs is left alone."""
    from hpcforge.cli import power as work

    asked = work.Asked(blueprint, inventory, identity, nodes, False, as_json, yes, force, pause)
    return work.run(asked, work.Wish("cycle", hard=hard, limit_s=wait))


@power.command("boot-once", epilog="Example: hpcforge power boot-once site.yaml w03 --device network")
def boot_once(
    blueprint: options.Blueprint,
    nodes: _Nodes = None,
    device: Annotated[
        str, typer.Option("--device", help="network, disk, or none: what the firmware is set to.", metavar="DEVICE")
    ] = "network",
    inventory: options.Inventory = None,
    identity: options.Identity = None,
    as_json: options.Json = False,
) -> int:
    """Choose what nodes boot from at their next start. Restarts nothing."""
    from hpcforge.cli import power as work

    asked = work.Asked(blueprint, inventory, identity, nodes, False, as_json)
    return work.run(asked, work.boot_wish(device))
