"""The launches of a smoke test and their ranks, as numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Literal

from hpcforge.errors import ExpectedError
from hpcforge.launchers import LauncherName

SHARING = 16  # ranks that may share the cores of a node without GPUs if a test sets no number for each node


@dataclass(frozen=True)
class RankNeeds:
    """Limits for the number of ranks of a smoke test. None: no limit."""

    per_node: int | None = None
    multiple_of: int = 1
    at_most: int | None = None


@dataclass(frozen=True)
class ProgramLaunch:
    """One launch of a smoke test that has several."""

    name: str
    launcher: LauncherName
    ends: Literal["done", "killed"] = "done"
    kill_after_s: int | None = None  # None: the program kills a process
    ranks_divided_by: int = 1
    environment: tuple[tuple[str, str], ...] = ()


class RanksError(ExpectedError):
    """No number of ranks on these nodes fits a test; with the reason."""


def ranks_per_node(needs: RankNeeds, nodes: int, usual: int, gpus: int) -> int:
    """Return how many ranks each of some nodes gets.

    `usual` is the number without needs, and the highest with GPUs. `gpus` are real ones of each node: a rank takes one.
    Ranks without GPUs share cores, so there may be more than usual. Raises RanksError.
    """
    if gpus and needs.per_node is not None and needs.per_node > gpus:
        raise RanksError(f"it needs {needs.per_node} ranks on each node, and a node has {gpus} GPUs")
    most = usual if gpus else max(usual, min(needs.multiple_of, SHARING))
    counts = [needs.per_node] if needs.per_node is not None else [*range(usual, 0, -1), *range(usual + 1, most + 1)]
    for count in counts:
        if nodes * count % needs.multiple_of == 0 and nodes * count <= (needs.at_most or nodes * count):
            return count
    ranks = f"{needs.per_node}" if needs.per_node is not None else f"1 to {most}"
    multiple = f"a multiple of {needs.multiple_of}" * (needs.multiple_of > 1)
    limit = f"at most {needs.at_most}" if needs.at_most is not None else ""
    raise RanksError(
        f"it needs {' and '.join(filter(None, (multiple, limit)))} ranks: "
        f"{nodes} nodes with {ranks} ranks each have none"
    )


def divided(nodes: int, per_node: int, by: int) -> tuple[int, int]:
    """Return nodes and ranks on each for a part of the ranks: fewer ranks on each node first, then fewer nodes.

    `by` divides the number of all ranks.
    """
    common = gcd(by, per_node)
    return nodes // (by // common), per_node // common
