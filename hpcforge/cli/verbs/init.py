"""`hpcforge init`: a first blueprint and its inventory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcforge.cli import completion, options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Write and check a blueprint",
        epilog="Examples: hpcforge init site.yaml --template nvlink --workers 16\n\n"
        "hpcforge init site.yaml --from /etc/slurm/slurm.conf --user ops\n\n"
        "hpcforge init site.yaml --ssh 10.20.0.[10-19] --user ops --trust-new",
    )(init)


def init(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The blueprint to write. Default: list the templates.", metavar="[FILE]", show_default=False
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            help="The kind of cluster.", metavar="NAME", show_default=False, autocompletion=completion.templates
        ),
    ] = None,
    machines: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Take the machines of this file: /etc/hosts, an Ansible inventory (INI or YAML), slurm.conf with "
            "gres.conf and the files that it includes, or what `scontrol show node` or `slurmd -C` prints.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        Literal["hosts", "ansible", "slurm"] | None,
        typer.Option("--from-format", help="The format of that file. Default: recognised.", show_default=False),
    ] = None,
    ssh: Annotated[
        list[str] | None,
        typer.Option(
            help="Log in to these addresses, a hostlist, and take the machines that answer as they are. Repeatable.",
            metavar="ADDRESSES",
            show_default=False,
        ),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust-new", help="With --ssh: accept and record the host key of each machine.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="The cluster's name. Default: of the file.", metavar="NAME", show_default=False)
    ] = None,
    domain: Annotated[
        str | None, typer.Option(help="DNS domain. Default: NAME.internal.", metavar="DOMAIN", show_default=False)
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            help="The account on the nodes that may use sudo. Default: ops.", metavar="USER", show_default=False
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="The nodes' network. Default: 10.20.0.0/22.", metavar="CIDR", show_default=False),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of GPU workers.", min=1, max=999, show_default=False)
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            help="Their model in the catalog.",
            metavar="MODEL",
            show_default=False,
            autocompletion=completion.catalog_models,
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Write a first blueprint, with comments, and its inventory.

    On a terminal it asks for what no option says. It overwrites no file, and contacts no node
    without --ssh. What it guesses is marked.
    """
    from hpcforge.cli import init as work

    answers = work.Given(name, domain, user, network, workers, server)
    return work.init(file, template, machines, source, answers, as_json, ssh or (), trust)
