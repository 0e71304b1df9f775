"""Names and addresses folded side by side, as Slurm's `NodeName=w[01-03] NodeAddr=10.77.0.[11-13]` pairs them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Node

_LAST_NUMBER = re.compile(r"(.*[^0-9]|)([0-9]+)")


def address_runs(nodes: Iterable[Node]) -> list[tuple[str, str]]:
    """Return pairs of hostlists of names and addresses; both of a pair count up by one, so Slurm reads them alike."""
    runs: list[list[Node]] = []
    for node in nodes:
        if runs and _next(runs[-1][-1].name) == node.name and _next(runs[-1][-1].address) == node.address:
            runs[-1].append(node)
        else:
            runs.append([node])
    return [(fold(node.name for node in run), fold(node.address for node in run)) for run in runs]


def _next(text: str) -> str | None:
    """The text with its last number one higher, padded alike: w09 -> w10; None where it does not end in one."""
    match = _LAST_NUMBER.fullmatch(text)
    return f"{match[1]}{int(match[2]) + 1:0{len(match[2])}}" if match else None
