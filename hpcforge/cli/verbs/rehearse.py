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
    """Add the verb and its subcommands."""
    app.add_typer(rehearse, name="rehearse", no_args_is_help=True, rich_help_panel="Rehearse on this machine")


_WHICH = (
    "The rehearsal's blueprint (ends in .yaml). Not needed if this machine has only one rehearsal, except to remove "
    "something. "
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
        help="Rehearse only this node set and the nodes that provide services. Default: all nodes with a function "
        "other than worker, three workers of each group, and one of each partition. Not for a lab's blueprint.",
        metavar="NODES",
        show_default=False,
        autocompletion=completion.node_sets,
    ),
]
_WhichSave = Annotated[
    list[str],
    typer.Argument(
        help=f"{_WHICH}Then the name of the save.",
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
            help="Kind of nodes: nspawn, containers; vm, virtual machines; vagrant, virtual machines that Vagrant "
            "starts. The last two need an image with a disk (`image build --disk`). Default: the rehearsal's "
            "kind, else the blueprint's, else nspawn.",
            metavar="KIND",
            show_default=False,
        ),
    ] = None,
    no_image: Annotated[
        bool,
        typer.Option(
            "--no-image",
            help="Create new nodes from a base system even if this blueprint has an image.",
            envvar="HPCFORGE_NO_IMAGE",
        ),
    ] = False,
    no_start: Annotated[
        bool, typer.Option("--no-start", help="Prepare the nodes without starting them: for `vagrant up`.")
    ] = False,
) -> int:
    """Start the nodes of a blueprint. Nodes that already run keep running.

    Creates new nodes from an image of the blueprint (`image build`) if there is one, else from a base system.

    A real site's blueprint needs no change: stand-ins replace what this machine lacks (`rehearse compare` lists them).
    The last line of output is the next command. For the rehearsal, give --lab to other commands; without it they work
    on the site.
    """
    from hpcforge.cli import rehearse as work

    return work.up(blueprint, lab, nodes, on, image=not no_image, start=not no_start)


@rehearse.command(epilog="Example: hpcforge rehearse compare blueprints/dgx-h100-site.yaml")
def compare(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    nodes: _Chosen = None,
    full: Annotated[bool, typer.Option("--full", help="Show every line that differs.")] = False,
    as_json: options.Json = False,
) -> int:
    """Show each stand-in of a rehearsal, and the files of nodes that it changes.

    Contacts no node, so the rehearsal need not be up. Exits with 1 if a file differs for a reason other than a
    stand-in.
    """
    from hpcforge.cli import rehearse_compare as work

    return work.compare(blueprint, inventory, lab, nodes, full, as_json)


@rehearse.command("list", epilog="Example: hpcforge rehearse list")
def list_(as_json: options.Json = False) -> int:
    """List all rehearsals of this machine: blueprint, running nodes, start time, saves."""
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
            help=f"{_WHICH}Then the node, and optionally a command for the node's shell, as with ssh.",
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
    replace: Annotated[bool, typer.Option("--replace", help="Replace a save with the same name.")] = False,
    lab: options.LabName = None,
    as_json: options.Json = False,
) -> int:
    """Save a rehearsal: power off its nodes, set their disks aside, and start the nodes that ran.

    Copies nothing. The power-off ends all jobs: wait for them first.
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
            help="A hostlist: restore only these nodes.",
            autocompletion=completion.rehearsed_nodes,
        ),
    ] = None,
    lab: options.LabName = None,
    as_json: options.Json = False,
) -> int:
    """Return a rehearsal to a save: disks, host keys and running nodes. Later changes on its nodes are lost.

    Removes nodes that the save does not have. Blueprints, roles and secrets on this machine stay unchanged.
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
        bool,
        typer.Option("--disks", help="Also remove their disks: `up` then creates new machines with the same names."),
    ] = False,
    lab: options.LabName = None,
) -> int:
    """Remove a rehearsal with everything that it created on this machine, or stop single nodes."""
    from hpcforge.cli import rehearse as work

    return work.down(words or [], disks, lab)
