"""`hpcforge show`: the cluster as resolved, every default applied."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import yaml

from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import load
from hpcforge.command_hint import command_line
from hpcforge.report import printing
from hpcforge.report.show_text import collectives_json, collectives_text, show_text


def show(blueprint: Path, inventory: Path | None, full: bool, as_json: bool) -> int:
    """Run `hpcforge show`. Returns the exit status."""
    resolved = load(blueprint, inventory).cluster
    if not (full or as_json):
        again = f"{command_line('show', blueprint, inventory=inventory)} --full"
        printing.result(show_text(resolved, again, printing.columns()))
        return Exit.DONE
    cluster = dataclasses.asdict(resolved)
    for test in (cluster["acceptance"] or {}).get("tests", ()):
        del test["program"]["text"]  # a file, not a value
    text = json.dumps({"schema_version": 1, "cluster": cluster}, indent=2, default=str)  # paths as text
    printing.result(text + "\n" if as_json else _yaml(json.loads(text)["cluster"]))
    return Exit.DONE


def show_nccl(blueprint: Path, inventory: Path | None, as_json: bool) -> int:
    """Run `hpcforge show --nccl`. Returns the exit status."""
    cluster = load(blueprint, inventory).cluster
    if as_json:
        printing.result(json.dumps(collectives_json(cluster), indent=2) + "\n")
    else:
        printing.result(collectives_text(cluster, printing.columns()))
    return Exit.DONE


def _yaml(data: Any) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=120))
