"""Arguments and options that verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import completion

Blueprint = Annotated[
    Path,
    typer.Argument(help="The blueprint, a YAML file.", show_default=False, autocompletion=completion.blueprints),
]
Inventory = Annotated[
    Path | None,
    typer.Option(help="Use this inventory instead of the one the blueprint names.", metavar="FILE", show_default=False),
]
LabName = Annotated[
    str | None,
    typer.Option(
        "--lab",
        help="The rehearsal of this name is meant: of a real site's blueprint, which means the site without; or of one "
        "made for a lab, if it is not the name that follows from it.",
        metavar="NAME",
        show_default=False,
        envvar="HPCFORGE_LAB",
    ),
]
Identity = Annotated[
    Path | None,
    typer.Option(
        help="The age key file that opens the secrets. Default: $HPCFORGE_IDENTITY, or age.key in the user's "
        "configuration directory.",
        metavar="FILE",
        show_default=False,
    ),
]
TrustNew = Annotated[
    bool,
    typer.Option(
        "--trust-new",
        help="Accept the host key that a node without a recorded one shows now, and record it in the inventory.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable results on stdout, schema-versioned.")]

Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        help="Only these nodes: a hostlist, a partition, a rack, a function, or all!w03. Repeatable.",
        metavar="NODES",
        show_default=False,
        autocompletion=completion.node_sets,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
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
        help="Only what this role does. Repeatable.",
        metavar="ROLE",
        show_default=False,
        autocompletion=completion.roles,
    ),
]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force",
        help="Run this role's code and restart its units though nothing differs. Repeatable.",
        metavar="ROLE",
        show_default=False,
        autocompletion=completion.roles,
    ),
]
Verify = Annotated[
    str | None,
    typer.Option(
        "--verify",
        help="What to test afterwards: touched (what changed, with a partner each; all of what has not passed yet), "
        "all, or none. Default: touched.",
        metavar="touched|all|none",
        show_default=False,
        autocompletion=lambda: ["touched", "all", "none"],
    ),
]
