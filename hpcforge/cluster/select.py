"""The nodes of `--limit` and `--exclude`: node sets of a cluster's names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hpcforge.blueprint import node_sets
from hpcforge.cluster.model import FUNCTIONS, Cluster, Node, Partition
from hpcforge.errors import ExpectedError


class SelectionError(ExpectedError):
    """A selection names nothing that there is; `hint` says what could be meant."""

    kind = "invalid"


def select(
    cluster: Cluster, limit: Sequence[str], exclude: Sequence[str], others: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the selected nodes, in the cluster's order; no `limit` means all. `others` are further known names.

    Raises:
        SelectionError: a name is neither a node nor a word for some, or nothing is left.
    """
    models: dict[str, list[str]] = {}
    for node in cluster.nodes:
        models.setdefault(node.hardware, []).append(node.name)
    known_names = words(cluster.nodes, cluster.slurm.partitions, others)
    hardware = {model: tuple(names) for model, names in models.items()}
    known_names = replace(known_names, words={**known_names.words, "hardware": hardware})
    within = set(_expand(known_names, limit)) if limit else set(known_names.nodes)
    without = set(_expand(known_names, exclude))
    chosen = tuple(name for name in known_names.nodes if name in within and name not in without)
    if not chosen:
        raise SelectionError("--limit and --exclude leave no node", "widen --limit, or remove --exclude")
    return chosen


def words(
    nodes: Sequence[Node], partitions: Iterable[Partition], others: Iterable[str] = (), racks: Iterable[str] = ()
) -> node_sets.KnownNames:
    """Return the names for nodes of a cluster; `racks` may be named though nothing stands there."""
    names = (*(node.name for node in nodes), *others)
    by_rack: dict[str, list[str]] = {rack: [] for rack in racks}
    members: dict[str, list[str]] = {}
    for node in nodes:
        members.setdefault(node.group, []).append(node.name)
        if node.rack:
            by_rack.setdefault(node.rack, []).append(node.name)
    return node_sets.named(
        names,
        names,
        partition={partition.name: partition.nodes for partition in partitions},
        rack={rack: tuple(in_rack) for rack, in_rack in by_rack.items()},
        function={function: tuple(node.name for node in nodes if function in node.functions) for function in FUNCTIONS},
        group=node_sets.groups(members),
    )


def worker_words(
    nodes: Sequence[Node], partitions: Iterable[Partition], racks: Iterable[str] = ()
) -> node_sets.KnownNames:
    """Return the names for workers of a cluster: `all` are the workers, and racks and functions have only theirs."""
    return words(nodes, partitions, (), racks).within({node.name for node in nodes if "worker" in node.functions})


def _expand(known_names: node_sets.KnownNames, texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        try:
            yield from node_sets.expand(text, known_names) or ()
        except node_sets.NodeSetError as error:
            message = str(error) if str(error).startswith("there ") else f"{text!r} {error}"
            raise SelectionError(message, error.hint or "a node set, as in gpu[001-004],rack-a or all!w03") from None
