"""Which nodes `--limit` and `--exclude` mean: hostlists, and plain names of racks and functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hpcforge.blueprint import hostlist
from hpcforge.cluster.model import FUNCTIONS, Cluster
from hpcforge.errors import ExpectedError


class SelectionError(ExpectedError):
    """A selection names nothing that there is; `hint` says what could be meant."""

    kind = "invalid"


def select(
    cluster: Cluster, limit: Sequence[str], exclude: Sequence[str], others: Iterable[str] = ()
) -> tuple[str, ...]:
    """The chosen nodes, in the cluster's order; no `limit` means all. `others` are further names that may be meant.

    Raises:
        SelectionError: a name is neither node, rack nor function, or nothing is left.
    """
    further = tuple(others)
    known = (*(node.name for node in cluster.nodes), *further)
    within = set(_named(cluster, limit, further)) if limit else set(known)
    without = set(_named(cluster, exclude, further))
    chosen = tuple(name for name in known if name in within and name not in without)
    if not chosen:
        raise SelectionError("no node is left after --limit and --exclude", "widen --limit, or leave --exclude out")
    return chosen


def _named(cluster: Cluster, texts: Sequence[str], others: tuple[str, ...]) -> Iterator[str]:
    for text in texts:
        try:
            names = hostlist.expand(text)
        except hostlist.HostlistError as error:
            hint = error.hint or "a hostlist, as in gpu[001-004],head01; or a rack or function"
            raise SelectionError(f"{text!r} {error}", hint) from None
        for name in names:
            yield from _meant(cluster, name, others)


def _meant(cluster: Cluster, name: str, others: tuple[str, ...]) -> Sequence[str]:
    if name in cluster.by_name or name in others:
        return (name,)
    found = [n.name for n in cluster.nodes if n.rack == name] or [n.name for n in cluster.nodes if name in n.functions]
    if not found:
        racks = sorted({node.rack for node in cluster.nodes if node.rack})
        groups = ", ".join(dict.fromkeys(node.group for node in cluster.nodes))
        hint = f"nodes: {groups}; functions: {', '.join(FUNCTIONS)}" + (
            f"; racks: {hostlist.fold(racks)}" if racks else ""
        )
        raise SelectionError(f"there is no node, rack or function {name!r}", hint)
    return found
