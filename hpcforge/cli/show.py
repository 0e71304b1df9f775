"""`hpcforge show`: the cluster as resolved, every default applied."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

import typer
import yaml

from hpcforge.cli import options
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import load


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge show blueprints/rehearsal.yaml")(show)


def show(blueprint: options.Blueprint, inventory: options.Inventory = None, as_json: options.Json = False) -> int:
    """Print the cluster that a blueprint and its inventory come to: nodes, addresses, defaults. Looks at no node."""
    data = _plain(dataclasses.asdict(load(blueprint, inventory).cluster))
    text = json.dumps({"schema_version": 1, "cluster": data}, indent=2) + "\n" if as_json else _yaml(data)
    sys.stdout.write(text)
    return Exit.DONE


def _yaml(data: Any) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=120))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)
