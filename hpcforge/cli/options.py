"""Arguments and options that verbs share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperCommand

from hpcforge.cli import completion

DesignTable = Literal["power", "bom", "cables", "ports"]
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
        "site. For a lab's blueprint: only if the rehearsal does not have its default name.",
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
Json = Annotated[bool, typer.Option("--json", help="Print results as JSON with a schema version.")]

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
        help="Of these nodes, install those without an operating system: no recorded host key, and ssh silent.",
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
HTTP_PORT = 8080  # of what serves installers
ProxyDhcp = Annotated[
    bool, typer.Option("--proxy-dhcp", help="The site's DHCP server gives addresses; only name boot files.")
]


@dataclass(frozen=True)
class InstallOptions:
    """`--install` and what belongs to it."""

    nodes: str | None
    wipe: Sequence[str]
    image: str | None
    proxy: bool

    @property
    def given(self) -> dict[str, object]:
        """Those that are given, as on a command line; {} for none."""
        all_of_them = {"install": self.nodes, "wipe": self.wipe, "image": self.image, "proxy_dhcp": self.proxy}
        return {name: value for name, value in all_of_them.items() if value}


class BlueprintFirst(TyperCommand):
    """A command that takes its blueprint from the environment where its first argument is not one.

    Click gives arguments their words in order, so that `logs w01` would read the blueprint w01.
    """

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Insert the environment's blueprint before the arguments if they do not begin with a blueprint."""
        blueprint = os.environ.get(completion.IN_ENVIRONMENT)
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        if not blueprint or not arguments or arguments[0].envvar != completion.IN_ENVIRONMENT:
            return super().parse_args(ctx, args)
        words, _, _ = self.make_parser(ctx).parse_args(list(args))
        first, *others = [words.get(each.name or "") for each in arguments]
        lacking = any(each.required and not word for each, word in zip(arguments[1:], others, strict=True))
        if first is None:
            return super().parse_args(ctx, [blueprint, *args] if others else args)
        if _is_blueprint(str(first), lacking=lacking):
            return super().parse_args(ctx, args)
        if not others:
            nodes = f" Nodes: -n {first}" if any("-n" in each.opts for each in self.params) else ""
            ctx.fail(f"{first} is not a blueprint, and {completion.IN_ENVIRONMENT} names {blueprint}.{nodes}")
        return super().parse_args(ctx, [blueprint, *args])


def _is_blueprint(word: str, *, lacking: bool) -> bool:
    """Return whether a first argument is a blueprint's path; `lacking`: a later argument needs a word and has none."""
    if word.endswith((".yaml", ".yml")):
        return True
    return not lacking and (os.sep in word or Path(word).is_file())
