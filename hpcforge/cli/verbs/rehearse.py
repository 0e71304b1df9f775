"""`hpcforge rehearse`: the blueprint's nodes on this one machine."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import completion, options

rehearse = typer.Typer(
    help="Run a blueprint's nodes on this machine, and take them down.\n\nReal Debian nodes in containers or virtual "
    "machines, reached over SSH like any others. Needs root."
)


def register(app: typer.Typer) -> None:
    """Add the verb and its own."""
    app.add_typer(rehearse, name="rehearse", no_args_is_help=True, rich_help_panel="Rehearse on this machine")


_WHICH = (
    "Of which rehearsal: its blueprint (ends in .yaml). Not needed where this machine has only one, but by what takes "
    "something away. "
)
_Which = Annotated[
    list[str] | None,
    typer.Argument(
        help=_WHICH, metavar="[BLUEPRINT]", show_default=False, autocompletion=completion.behind_blueprint()
    ),
]
_Chosen = Annotated[
    str | None,
    typer.Option(
        "--nodes",
        help="A node set: rehearse these, and the nodes that carry a service. Default: all with a function other than "
        "worker, three workers of each group, and one of each partition. Not for a blueprint made for a lab.",
        metavar="NODES",
        show_default=False,
        autocompletion=completion.node_sets,
    ),
]
_WhichSave = Annotated[
    list[str],
    typer.Argument(
        help=f"{_WHICH}Then the save's name.",
        metavar="[BLUEPRINT] NAME",
        show_default=False,
        autocompletion=completion.behind_blueprint(completion.saves),
    ),
]


@rehearse.command(
    epilog="Example: hpcforge rehearse up blueprints/rehearsal.yaml; or of a real site: "
    'hpcforge rehearse up blueprints/dgx-h100-site.yaml --nodes "login01,gpu[001-002]"'
)
def up(
    blueprint: options.Blueprint,
    lab: options.LabName = None,
    nodes: _Chosen = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            help="What nodes are: nspawn, containers; vm, virtual machines, or vagrant, those that Vagrant makes, "
            "which both need an image with a "
            "disk (`image build --disk`). Default: what the rehearsal has, else what the blueprint says, else nspawn.",
            metavar="KIND",
            show_default=False,
        ),
    ] = None,
    no_image: Annotated[
        bool,
        typer.Option(
            "--no-image",
            help="New nodes are made from a base system, also where there is an image of this blueprint.",
            envvar="HPCFORGE_NO_IMAGE",
        ),
    ] = False,
    no_start: Annotated[
        bool, typer.Option("--no-start", help="Make what nodes are started from, and start none: `vagrant up` does.")
    ] = False,
) -> int:
    """Start the nodes of a blueprint. What runs already is left running.

    New nodes are made from an image of the blueprint (`image build`), if there is one, and else from a base system.

    A real site's blueprint is rehearsed as it is, on nodes of this machine alone: the last line says how to go on.
    What they cannot have has a stand-in, which `rehearse compare` shows. Without --lab other commands mean the site.
    """
    from hpcforge.cli import rehearse as work

    return work.up(blueprint, lab, nodes, on, image=not no_image, start=not no_start)


@rehearse.command(epilog="Example: hpcforge rehearse compare blueprints/dgx-h100-site.yaml")
def compare(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    nodes: _Chosen = None,
    as_json: options.Json = False,
) -> int:
    """Show what a rehearsal has instead of the real thing: each stand-in, and what it changes in files of nodes.

    No node is asked. Where the rehearsal is not up, what it would be is compared. Exit status 1: a file differs for
    another reason than a stand-in.
    """
    from hpcforge.cli import rehearse_compare as work

    return work.compare(blueprint, inventory, lab, nodes, as_json)


@rehearse.command("list", epilog="Example: hpcforge rehearse list")
def list_(as_json: options.Json = False) -> int:
    """List all rehearsals of this machine: blueprint, nodes that are up, since when, saves."""
    from hpcforge.cli import rehearse as work

    return work.list_(as_json)


@rehearse.command(epilog="Example: hpcforge rehearse status blueprints/rehearsal.yaml")
def status(words: _Which = None, lab: options.LabName = None, as_json: options.Json = False) -> int:
    """Show the nodes of a rehearsal, whether they run, and its saves."""
    from hpcforge.cli import rehearse as work

    return work.status(words or [], lab, as_json)


@rehearse.command(epilog="Example: hpcforge rehearse ssh blueprints/rehearsal.yaml head -- sinfo")
def ssh(
    words: Annotated[
        list[str],
        typer.Argument(
            help=f"{_WHICH}Then the node; then a command, which a shell on the node reads, as with ssh.",
            metavar="[BLUEPRINT] NODE [COMMAND]...",
            show_default=False,
            autocompletion=completion.behind_blueprint(completion.rehearsed_nodes),
        ),
    ],
    lab: options.LabName = None,
) -> int:
    """Log in to a node as the blueprint's access user, with its host key checked."""
    from hpcforge.cli import rehearse_ssh as work

    return work.ssh(words, lab)


@rehearse.command(epilog="Example: hpcforge rehearse save blueprints/rehearsal.yaml before-upgrade")
def save(
    words: _WhichSave,
    replace: Annotated[bool, typer.Option("--replace", help="A save of this name goes.")] = False,
    lab: options.LabName = None,
    as_json: options.Json = False,
) -> int:
    """Keep a rehearsal as it is: its nodes are powered off, their disks set aside, and those that ran started again.

    Nothing is copied. Jobs are lost, as with any power-off: wait for them first.
    """
    from hpcforge.cli import rehearse as work

    return work.save(words, replace, lab, as_json)


@rehearse.command(epilog="Example: hpcforge rehearse restore blueprints/rehearsal.yaml before-upgrade")
def restore(
    words: _WhichSave,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--nodes",
            help="A hostlist: these alone, the others stay as they are.",
            autocompletion=completion.rehearsed_nodes,
        ),
    ] = None,
    lab: options.LabName = None,
    as_json: options.Json = False,
) -> int:
    """Have a rehearsal back as it was at a save: disks, host keys, and which nodes run. What came later is lost.

    Nodes that were not there at the save go; blueprints, roles and secrets on this machine stay as they are.
    """
    from hpcforge.cli import rehearse as work

    return work.restore(words, nodes, lab, as_json)


@rehearse.command(epilog="Example: hpcforge rehearse forget blueprints/rehearsal.yaml before-upgrade")
def forget(words: _WhichSave, lab: options.LabName = None) -> int:
    """Remove a save. The nodes stay as they are."""
    from hpcforge.cli import rehearse as work

    return work.forget(words, lab)


@rehearse.command(
    epilog="Example: hpcforge rehearse down blueprints/rehearsal.yaml; or, to stop one node: "
    "hpcforge rehearse down blueprints/rehearsal.yaml w02"
)
def down(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{_WHICH}Then a hostlist: stop these, keep their disks. Default: remove the whole rehearsal.",
            metavar="[BLUEPRINT] [NODES]",
            show_default=False,
            autocompletion=completion.behind_blueprint(completion.rehearsed_nodes),
        ),
    ] = None,
    disks: Annotated[
        bool, typer.Option("--disks", help="Their disks go, too: `up` then starts other machines under their names.")
    ] = False,
    lab: options.LabName = None,
) -> int:
    """Take a rehearsal down: exactly what it made on this machine is removed, or single nodes are stopped."""
    from hpcforge.cli import rehearse as work

    return work.down(words or [], disks, lab)
