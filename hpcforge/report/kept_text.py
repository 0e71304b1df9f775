"""What stays on nodes of what was taken away, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hpcforge.blueprint.hostlist import fold
from hpcforge.plan.plan import Kept
from hpcforge.report.text import one_line

_WORDS = {
    ("directory", True): "directories",
    ("kernel arguments", True): "kernel arguments",
    ("work", False): "work of",
    ("work", True): "work of",
}


def stays_lines(stays: Iterable[Kept]) -> Iterator[str]:
    """A line for those of a kind that stay for the same reason."""
    names: dict[tuple[str, str], dict[str, None]] = {}
    for remnant in stays:
        names.setdefault((remnant.kind, remnant.why), {}).update(dict.fromkeys(remnant.names))
    for (kind, why), several in names.items():
        many = len(several) > 1
        what = "" if kind == "path" else _WORDS.get((kind, many), f"{kind}s" if many else kind) + " "
        yield f"{what}{' '.join(several)}: {why}"


def stays_text(stays: Mapping[str, Iterable[Kept]]) -> str:
    """What stays on each node, nodes with the same folded together; nothing for those where nothing does."""
    nodes: dict[tuple[str, ...], list[str]] = {}
    for node, left in stays.items():
        nodes.setdefault(tuple(stays_lines(left)), []).append(node)
    lines = (line for body, names in nodes.items() if body for line in (f"stays on {fold(names)}:", *_indented(body)))
    return "".join(f"{one_line(line)}\n" for line in lines)


def _indented(body: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in body)
