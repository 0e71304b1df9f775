"""`hpcforge show`: the cluster as resolved, every default applied."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import typer
import yaml

from hpcforge.cli import options
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import load
from hpcforge.report import printing


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge show blueprints/rehearsal.yaml")(show)


def show(blueprint: options.Blueprint, inventory: options.Inventory = None, as_json: options.Json = False) -> int:
    """Print the cluster that a blueprint and its inventory come to: nodes, addresses, defaults. Looks at no node."""
    cluster = dataclasses.asdict(load(blueprint, inventory).cluster)
    text = json.dumps({"schema_version": 1, "cluster": cluster}, indent=2, default=str)  # paths as text
    printing.result(text + "\n" if as_json else _yaml(json.loads(text)["cluster"]))
    return Exit.DONE


def _yaml(data: Any) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=120))
