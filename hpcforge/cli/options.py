"""Arguments and options that verbs share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import completion

Blueprint = Annotated[
    Path,
    typer.Argument(
        help="The blueprint, a YAML file.",
        show_default=False,
        autocompletion=completion.blueprints,
        envvar=completion.IN_ENVIRONMENT,
    ),
]
Inventory = Annotated[
    Path | None,
    typer.Option(help="Use this inventory instead of the one the blueprint names.", metavar="FILE", show_default=False),
]
LabName = Annotated[
    str | None,
    typer.Option(
        "--lab",
        help="Work on the rehearsal with this name. Required for a real site's blueprint, which otherwise means the "
        "site. With a lab's blueprint, required only if the rehearsal does not have its default name.",
        metavar="NAME",
        show_default=False,
        envvar="HPCFORGE_LAB",
    ),
]
Identity = Annotated[
    Path | None,
    typer.Option(
        help="The age key file for the secrets. Default: $HPCFORGE_IDENTITY, or age.key in the user's configuration "
        "directory.",
        metavar="FILE",
        show_default=False,
    ),
]
TrustNew = Annotated[
    bool,
    typer.Option(
        "--trust-new",
        help="Accept and record the host key of each node that has none in the inventory.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print results as JSON with a schema version.")]

Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        "-n",
        help="Only these nodes: a hostlist, a partition, a rack, a function, @rack:r1, or all!w03. Repeatable.",
        metavar="NODES",
        show_default=False,
        autocompletion=completion.node_sets,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        "-x",
        help="Not these nodes. Repeatable.",
        metavar="NODES",
        show_default=False,
        autocompletion=completion.node_sets,
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        help="Only this role. Repeatable.",
        metavar="ROLE",
        show_default=False,
        autocompletion=completion.roles,
    ),
]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force",
        help="Run this role's code and restart its units even if nothing differs. Repeatable.",
        metavar="ROLE",
        show_default=False,
        autocompletion=completion.roles,
    ),
]
Verify = Annotated[
    str | None,
    typer.Option(
        "--verify",
        help="Tests after the change: touched (changed nodes, each with a partner, and tests that have not passed "
        "yet), all, or none. Default: touched.",
        metavar="touched|all|none",
        show_default=False,
        autocompletion=lambda: ["touched", "all", "none"],
    ),
]
Install = Annotated[
    str | None,
    typer.Option(
        "--install",
        help="Install the selected nodes that have no operating system: no recorded host key, no answer to ssh.",
        metavar="NODES",
        show_default=False,
        autocompletion=completion.node_sets,
    ),
]
Wipe = Annotated[
    list[str] | None,
    typer.Option(
        "--wipe",
        help="Overwrite this disk although it has data: NODE=SERIAL. Repeatable. Otherwise only a blank disk is "
        "written.",
        metavar="NODE=SERIAL",
        show_default=False,
    ),
]
Image = Annotated[
    str | None,
    typer.Option(
        "--image",
        help="The image to install, built with --metal or --disk. Default: the only one.",
        metavar="NAME",
        show_default=False,
        autocompletion=completion.images,
    ),
]
HTTP_PORT = 8080  # of the server for installers
ProxyDhcp = Annotated[
    bool, typer.Option("--proxy-dhcp", help="The site's DHCP server gives addresses; only name boot files.")
]


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The cluster that a verb is about: a site, or a rehearsal."""

    blueprint: Blueprint
    inventory: Inventory = None
    lab: LabName = None


@dataclass(frozen=True, kw_only=True)
class SiteOptions(ClusterOptions):
    """The same, with the key file of its secrets."""

    identity: Identity = None

    @property
    def command_options(self) -> dict[str, object]:
        """The options of a command line that select it, beside its blueprint."""
        return {"inventory": self.inventory, "lab": self.lab, "identity": self.identity}


@dataclass(frozen=True, kw_only=True)
class SelectOptions:
    """The part of the cluster that changes, and the tests afterwards."""

    limit: Limit = None
    exclude: Exclude = None
    only: Only = None
    force: Force = None
    verify: Verify = None


@dataclass(frozen=True, kw_only=True)
class InstallOptions:
    """`--install` and what belongs to it."""

    install: Install = None
    wipe: Wipe = None
    image: Image = None
    proxy_dhcp: ProxyDhcp = False

    @property
    def command_options(self) -> dict[str, object]:
        """The options with a value, for a command line."""
        return {name: value for name, value in vars(self).items() if value}
