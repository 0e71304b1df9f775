"""`hpcforge rehearse`: the blueprint's nodes on this one machine."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson, Blueprint, ClusterOptions, LabName
from hpcforge.cli.verb import VerbGroup
from hpcforge.command_hint import command_line, from_here
from hpcforge.errors import ExpectedError, UsageError
from hpcforge.report import printing

if TYPE_CHECKING:
    from hpcforge.lab.lab import LabStatus

rehearse = VerbGroup(
    "Real Debian nodes in containers or virtual machines, reached over SSH like any others. Needs root."
)
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


@dataclass(frozen=True, kw_only=True)
class RehearseUpOptions:
    """Options of `hpcforge rehearse up`."""

    blueprint: Blueprint
    lab: LabName = None
    nodes: _Chosen = None
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
    ] = None
    no_image: Annotated[
        bool,
        typer.Option(
            "--no-image",
            help="Create new nodes from a base system even if this blueprint has an image.",
            envvar="HPCFORGE_NO_IMAGE",
        ),
    ] = False
    no_start: Annotated[
        bool, typer.Option("--no-start", help="Prepare the nodes without starting them: for `vagrant up`.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class RehearseCompareOptions:
    """Options of `hpcforge rehearse compare`."""

    cluster: ClusterOptions
    nodes: _Chosen = None
    full: Annotated[bool, typer.Option("--full", help="Show every line that differs.")] = False
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class RehearseListOptions:
    """Options of `hpcforge rehearse list`."""

    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class RehearseStatusOptions:
    """Options of `hpcforge rehearse status`."""

    words: _Which = None
    lab: LabName = None
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class RehearseSshOptions:
    """Options of `hpcforge rehearse ssh`."""

    words: Annotated[
        list[str],
        typer.Argument(
            help=f"{_WHICH}Then the node, and optionally a command for the node's shell, as with ssh.",
            metavar="[BLUEPRINT] NODE [COMMAND]...",
            show_default=False,
            autocompletion=completion.behind_blueprint(completion.rehearsed_nodes),
        ),
    ]
    lab: LabName = None


@dataclass(frozen=True, kw_only=True)
class RehearseSaveOptions:
    """Options of `hpcforge rehearse save`."""

    words: _WhichSave
    replace: Annotated[bool, typer.Option("--replace", help="Replace a save with the same name.")] = False
    lab: LabName = None
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class RehearseRestoreOptions:
    """Options of `hpcforge rehearse restore`."""

    words: _WhichSave
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--nodes",
            help="A hostlist: restore only these nodes.",
            autocompletion=completion.rehearsed_nodes,
        ),
    ] = None
    lab: LabName = None
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class RehearseForgetOptions:
    """Options of `hpcforge rehearse forget`."""

    words: _WhichSave
    lab: LabName = None


@dataclass(frozen=True, kw_only=True)
class RehearseDownOptions:
    """Options of `hpcforge rehearse down`."""

    words: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"{_WHICH}Then a hostlist: stop these, keep their disks. Default: remove the whole rehearsal.",
            metavar="[BLUEPRINT] [NODES]",
            show_default=False,
            autocompletion=completion.behind_blueprint(completion.rehearsed_nodes),
        ),
    ] = None
    disks: Annotated[
        bool,
        typer.Option("--disks", help="Also remove their disks: `up` then creates new machines with the same names."),
    ] = False
    lab: LabName = None


@rehearse.verb(
    epilog="Example: hpcforge rehearse up blueprints/rehearsal.yaml; or of a real site: "
    'hpcforge rehearse up blueprints/dgx-h100-site.yaml --nodes "login01,gpu[001-002]"'
)
def up(options: RehearseUpOptions) -> int:
    """Start the nodes of a blueprint. Nodes that already run keep running.

    Creates new nodes from an image of the blueprint (`image build`) if there is one, else from a base system.

    A real site's blueprint needs no change: stand-ins replace what this machine lacks (`rehearse compare` lists them).
    The last line of output is the next command. For the rehearsal, give --lab to other commands; without it they work
    on the site.
    """
    from hpcforge.cli import rehearse_up

    image, start = not options.no_image, not options.no_start
    return rehearse_up.up(options.blueprint, options.lab, options.nodes, options.on, image=image, start=start)


@rehearse.verb(epilog="Example: hpcforge rehearse compare blueprints/dgx-h100-site.yaml")
def compare(options: RehearseCompareOptions) -> int:
    """Show each stand-in of a rehearsal, and the files of nodes that it changes.

    Contacts no node, so the rehearsal need not be up. Exits with 1 if a file differs for a reason other than a
    stand-in.
    """
    from hpcforge.cli import rehearse_compare

    blueprint, inventory, lab = vars(options.cluster).values()
    return rehearse_compare.compare(blueprint, inventory, lab, options.nodes, options.full, options.as_json)


@rehearse.verb(epilog="Example: hpcforge rehearse list")
def list_(options: RehearseListOptions) -> int:
    """List all rehearsals of this machine: blueprint, running nodes, start time, saves."""
    from hpcforge.lab.listing import listed
    from hpcforge.report.rehearsal_text import rehearsals_text

    rehearsals = listed()
    if options.as_json:
        entries = [dataclasses.asdict(lab) for lab in rehearsals]
        printing.result(json.dumps({"schema_version": 1, "rehearsals": entries}, indent=2) + "\n")
    elif rehearsals:
        printing.result(rehearsals_text(rehearsals))
    else:
        printing.note(f"This machine has none. Next: {command_line('rehearse', 'up', 'BLUEPRINT')}\n")
    return Exit.DONE


@rehearse.verb(epilog="Example: hpcforge rehearse status blueprints/rehearsal.yaml")
def status(options: RehearseStatusOptions) -> int:
    """Show the nodes of a rehearsal, whether they run, and its saves."""
    from hpcforge.cli.rehearsals import one_of_all, parted, take
    from hpcforge.lab import lab as labs

    rehearsal, rest = parted(options.words or [], options.lab)
    take(rest, 0, 0)
    _print(labs.status(one_of_all(rehearsal)), options.as_json)
    return Exit.DONE


@rehearse.verb(epilog="Example: hpcforge rehearse ssh blueprints/rehearsal.yaml head -- sinfo")
def ssh(options: RehearseSshOptions) -> int:
    """Log in to a node as the blueprint's access user, with its host key checked."""
    from hpcforge.cli.rehearsals import RehearsalName, one_of_all, parted, refer_to, take
    from hpcforge.lab import lab as labs

    rehearsal, rest = parted(options.words, options.lab)
    node, *command = take(rest, 1, None)
    name = one_of_all(rehearsal)
    lab = labs.load(name)
    if lab is None:
        start = (rehearsal if rehearsal.name else RehearsalName(None, name)).up()
        raise UsageError(f"the rehearsal {name!r} is not up", f"start it: {start}")
    if not labs.runs(lab, node):
        start = refer_to(Path(lab.blueprint), name).up()
        raise UsageError(f"{node} of the rehearsal {name!r} is stopped", f"start it: {start}")
    argv = [*labs.ssh_argv(lab, node), *command]  # ssh joins the words, the shell on the node splits them
    printing.flush()
    os.execvp(argv[0], argv)  # noqa: S606 - a list, no shell: ssh takes the terminal over


@rehearse.verb(epilog="Example: hpcforge rehearse save blueprints/rehearsal.yaml before-upgrade")
def save(options: RehearseSaveOptions) -> int:
    """Save a rehearsal: power off its nodes, set their disks aside, and start the nodes that ran.

    Copies nothing. The power-off ends all jobs: wait for them first.
    """
    from hpcforge.cli.rehearsals import one_of_all, parted, refer_to, take
    from hpcforge.lab import lab as labs
    from hpcforge.report.progress import Progress
    from hpcforge.report.text import phases_line

    rehearsal, rest = parted(options.words, options.lab)
    (name,) = take(rest, 1, 1)
    with Progress() as progress, progress.phase("save"):
        made = labs.save(one_of_all(rehearsal), name, progress.say, replace=options.replace)
    printing.note(phases_line(progress.phases, progress.elapsed_s))
    _print(labs.status(made.name), options.as_json)
    command = refer_to(Path(made.blueprint), made.name).typed("restore", name)
    printing.note(f"Next, to return the rehearsal to its present state: {command}\n")
    return Exit.DONE


@rehearse.verb(epilog="Example: hpcforge rehearse restore blueprints/rehearsal.yaml before-upgrade")
def restore(options: RehearseRestoreOptions) -> int:
    """Return a rehearsal to a save: disks, host keys and running nodes. Later changes on its nodes are lost.

    Removes nodes that the save does not have. Blueprints, roles and secrets on this machine stay unchanged.
    """
    from hpcforge.cli.node_selection import expanded
    from hpcforge.cli.rehearsals import named_one, parted, refer_to, take
    from hpcforge.lab import lab as labs
    from hpcforge.report.progress import Progress
    from hpcforge.report.text import phases_line

    only = None if options.nodes is None else [node for text in options.nodes for node in expanded(text)]
    rehearsal, rest = parted(options.words, options.lab)
    (name,) = take(rest, 1, 1)
    with Progress() as progress, progress.phase("restore"):
        back = labs.restore(named_one(rehearsal, "restore", name), name, progress.say, nodes=only)
    printing.note(phases_line(progress.phases, progress.elapsed_s))
    _print(labs.status(back.name), options.as_json)
    blueprint = Path(back.blueprint)
    lab = refer_to(blueprint, back.name).lab if _made_for_lab(blueprint) else back.name
    printing.note(f"Next: {command_line('plan', from_here(blueprint), lab=lab)}\n")
    return Exit.DONE


@rehearse.verb(epilog="Example: hpcforge rehearse forget blueprints/rehearsal.yaml before-upgrade")
def forget(options: RehearseForgetOptions) -> int:
    """Remove a save. The nodes stay as they are."""
    from hpcforge.cli.rehearsals import named_one, parted, take
    from hpcforge.lab import lab as labs
    from hpcforge.report.progress import Progress

    rehearsal, rest = parted(options.words, options.lab)
    (name,) = take(rest, 1, 1)
    with Progress() as progress:
        labs.forget(named_one(rehearsal, "forget", name), name, progress.say)
    return Exit.DONE


@rehearse.verb(
    epilog="Example: hpcforge rehearse down blueprints/rehearsal.yaml; or, to stop one node: "
    "hpcforge rehearse down blueprints/rehearsal.yaml w02"
)
def down(options: RehearseDownOptions) -> int:
    """Remove a rehearsal with everything that it created on this machine, or stop single nodes."""
    from hpcforge.cli.node_selection import expanded
    from hpcforge.cli.rehearsals import named_one, parted, take
    from hpcforge.lab import lab as labs
    from hpcforge.report.progress import Progress

    rehearsal, rest = parted(options.words or [], options.lab)
    hostlist = next(iter(take(rest, 0, 1)), None)
    names = None if hostlist is None else expanded(hostlist)
    name = named_one(rehearsal, "down", *rest)
    with Progress() as progress:
        labs.down(name, names, progress.say, disks_too=options.disks)
    return Exit.DONE


def _made_for_lab(blueprint: Path) -> bool:
    """Return whether a blueprint alone selects its rehearsal. An unreadable one counts as a real site's."""
    from hpcforge.cluster import load

    try:
        return load(blueprint).wants_lab
    except ExpectedError:
        return False


def _print(status: LabStatus, as_json: bool) -> None:
    from hpcforge.report.rehearsal_text import rehearsal_json, rehearsal_text

    if as_json:
        printing.result(rehearsal_json(status))
    else:
        printing.result(rehearsal_text(status))
