"""`hpcforge show`: the cluster as resolved, every default applied."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import yaml

from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import load
from hpcforge.report import printing


def show(blueprint: Path, inventory: Path | None, as_json: bool) -> int:
    """Do what the help of `hpcforge show` says; the exit status."""
    cluster = dataclasses.asdict(load(blueprint, inventory).cluster)
    for test in (cluster["acceptance"] or {}).get("tests", ()):
        del test["program"]["text"]  # a file, not a value
    text = json.dumps({"schema_version": 1, "cluster": cluster}, indent=2, default=str)  # paths as text
    printing.result(text + "\n" if as_json else _yaml(json.loads(text)["cluster"]))
    return Exit.DONE


def _yaml(data: Any) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=120))
