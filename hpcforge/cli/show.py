"""`hpcforge show`: the cluster as resolved, every default applied."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson, Blueprint, Inventory
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.report import printing

if TYPE_CHECKING:
    from hpcforge.cluster.model import Cluster


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Options of `hpcforge show`."""

    blueprint: Blueprint
    inventory: Inventory = None
    full: Annotated[bool, typer.Option("--full", help="Show every value of every node, as YAML.")] = False
    nccl: Annotated[
        bool,
        typer.Option(
            "--nccl",
            help="Show the NCCL and UCX settings for the fabrics instead, with reasons and sources, and the settings "
            "left to the libraries.",
        ),
    ] = False
    as_json: AsJson = False


@verb(epilog="Example: hpcforge show blueprints/rehearsal.yaml")
def show(options: ShowOptions) -> int:
    """Contacts no node. Nodes that are alike share one row."""
    from hpcforge.cluster import load
    from hpcforge.report.show_text import collectives_json, collectives_text, show_text

    cluster = load(options.blueprint, options.inventory).cluster
    if options.nccl and options.as_json:
        printing.result(json.dumps(collectives_json(cluster), indent=2) + "\n")
    elif options.nccl:
        printing.result(collectives_text(cluster, printing.columns()))
    elif options.as_json:
        printing.result(json.dumps({"schema_version": 1, "cluster": _plain(cluster)}, indent=2) + "\n")
    elif options.full:
        printing.result(_yaml(_plain(cluster)))
    else:
        command = f"{command_line('show', options.blueprint, inventory=options.inventory)} --full"
        printing.result(show_text(cluster, command, printing.columns()))
    return Exit.DONE


def _plain(cluster: Cluster) -> object:
    """Return the cluster as mappings, lists and text, without the files of tests."""
    resolved = dataclasses.asdict(cluster)
    for test in (resolved["acceptance"] or {}).get("tests", ()):
        del test["program"]["text"]
    return json.loads(json.dumps(resolved, default=str))  # paths as text


def _yaml(data: object) -> str:
    import yaml

    return str(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=120))
