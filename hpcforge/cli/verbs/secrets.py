"""`hpcforge secrets`: make, set, list, show and replace the cluster's secrets."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import options

secrets = typer.Typer(
    help="Create, set, list, show and rotate the cluster's secrets.\n\nThey are in an age-encrypted file beside the "
    "blueprint. With --lab: those of a real site's rehearsal, in its folder."
)
Name = Annotated[str, typer.Argument(help="The secret's name, as `secrets list` shows it.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(secrets, name="secrets", no_args_is_help=True, rich_help_panel="Operate the cluster")


@secrets.command(epilog="Example: hpcforge secrets init blueprints/rehearsal.yaml")
def init(blueprint: options.Blueprint, lab: options.LabName = None, identity: options.Identity = None) -> int:
    """Create missing secrets, and the key file if there is none. `apply` does this too."""
    from hpcforge.cli import secrets as work

    return work.init(blueprint, lab, identity)


@secrets.command("list", epilog="Example: hpcforge secrets list blueprints/rehearsal.yaml")
def list_(
    blueprint: options.Blueprint,
    lab: options.LabName = None,
    identity: options.Identity = None,
    as_json: options.Json = False,
) -> int:
    """Show names, sizes, fingerprints, the roles that need them, and what is missing. Never shows a value."""
    from hpcforge.cli import secrets as work

    return work.list_(blueprint, lab, identity, as_json)


@secrets.command(epilog="Example: hpcforge secrets show blueprints/rehearsal.yaml munge_key --reveal | base64 -d")
def show(
    blueprint: options.Blueprint,
    name: Name,
    lab: options.LabName = None,
    identity: options.Identity = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Print the value even if the output is not a terminal.")
    ] = False,
) -> int:
    """Print a value: text unchanged, other data as base64."""
    from hpcforge.cli import secrets as work

    return work.show(blueprint, name, lab, identity, reveal)


@secrets.command("set", epilog="Example: pass show site/licence | hpcforge secrets set site.yaml licence")
def set_(
    blueprint: options.Blueprint,
    name: Name,
    lab: options.LabName = None,
    identity: options.Identity = None,
    as_json: options.Json = False,
) -> int:
    """Set a secret that the site provides, from standard input or a prompt. The next apply brings it to nodes."""
    from hpcforge.cli import secrets as work

    return work.set_(blueprint, name, lab, identity, as_json)


@secrets.command(epilog="Example: hpcforge secrets rotate blueprints/rehearsal.yaml munge_key")
def rotate(
    blueprint: options.Blueprint,
    name: Name,
    lab: options.LabName = None,
    identity: options.Identity = None,
) -> int:
    """Replace a secret with a new value. The next apply brings it to nodes."""
    from hpcforge.cli import secrets as work

    return work.rotate(blueprint, name, lab, identity)
