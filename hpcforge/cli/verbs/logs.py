"""`hpcforge logs`: lines out of what nodes log."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import completion, options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Build and test the cluster",
        epilog="Example: hpcforge logs blueprints/full-lab.yaml w01 --since 1h --grep Xid",
    )(logs)


def logs(
    blueprint: options.Blueprint,
    nodes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Of these nodes: a hostlist, a partition, a rack, a function, or all!w03. Default: all.",
            metavar="[NODES]",
            show_default=False,
            autocompletion=completion.node_sets,
        ),
    ] = None,
    since: Annotated[str, typer.Option(help="Not older than this: 90s, 15min, 2h or 7d.", metavar="TIME")] = "1h",
    grep: Annotated[
        str, typer.Option(help="Only lines with this text. It is not a pattern.", metavar="TEXT", show_default=False)
    ] = "",
    last: Annotated[int, typer.Option("--last", help="The number of lines.", min=1, max=50_000, metavar="N")] = 1000,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    as_json: options.Json = False,
) -> int:
    """Show what nodes logged, from the node that keeps all logs. Changes nothing.

    It needs the service `syslog` in the blueprint. Only that node is contacted.
    """
    from hpcforge.cli import logs as work

    return work.logs(
        blueprint=blueprint,
        nodes=nodes or (),
        since=since,
        grep=grep,
        last=last,
        inventory=inventory,
        lab=lab,
        as_json=as_json,
    )
