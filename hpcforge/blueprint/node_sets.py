"""Node sets: what names nodes in smoke tests and in `--limit`. Pure.

Terms are joined by `,` (and) and `!` (less), worked off from left to right: `all!w03`, `rack-a,rack-b`.
A term is a hostlist, or a word: `all`, a partition, a rack, a function. What is the name of a node is that node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.diagnostics import closest, quote

EACH_PARTITION = "each partition"

_OPERATOR_OR_BRACKETS = re.compile(r"[,!]|\[[^\]]*+")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,62}")  # as names of nodes, partitions, racks and functions are spelled
_SHOWN = 12


class NodeSetError(ValueError):
    """Text that names no nodes; `hint` says what could be meant."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Known:
    """What may be named: nodes, and words by their kind. A word's nodes are None as long as nobody knows them."""

    nodes: Mapping[str, None]
    everything: tuple[str, ...]  # what `all` means
    words: Mapping[str, Mapping[str, tuple[str, ...] | None]] = field(
        default_factory=dict
    )  # "rack" -> its name -> nodes


def named(nodes: Iterable[str], everything: Iterable[str], **words: Mapping[str, tuple[str, ...] | None]) -> Known:
    """`Known` of these nodes and words."""
    return Known(dict.fromkeys(nodes), tuple(everything), words)


def expand(text: str, known: Known) -> tuple[str, ...] | None:
    """The nodes in the order in which they are named, each once; None where a word's nodes are not known yet.

    Raises:
        NodeSetError: it is no node set, or names what there is not.
    """
    chosen: dict[str, None] = {}
    unsure = False
    for less, names in _terms(text):
        for name in names:
            meant = _meant(name, known)
            unsure |= meant is None
            for node in meant or ():
                if less:
                    chosen.pop(node, None)
                else:
                    chosen[node] = None
    return None if unsure else tuple(chosen)


def check(text: str) -> str:
    """Return the text if it is spelled as a node set. Raises NodeSetError."""
    for _ in _terms(text):
        pass
    return text


def plain(text: str, nodes: Iterable[str]) -> tuple[str, ...] | None:
    """The nodes of a hostlist of nothing but nodes, None of any other set."""
    try:
        names = hostlist.expand(text)
    except hostlist.HostlistError:
        return None
    return names if set(names) <= set(nodes) else None


def _terms(text: str) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Whether nodes are taken away, and the names of each term."""
    start, less = 0, False
    for found in (*_OPERATOR_OR_BRACKETS.finditer(text), None):
        if found is not None and found[0].startswith("["):
            continue
        end = len(text) if found is None else found.start()
        yield less, _names(text[start:end])
        if found is not None:
            start, less = found.end(), found[0] == "!"


def _names(term: str) -> tuple[str, ...]:
    if _WORD.fullmatch(term):
        return (term,)
    try:
        names = hostlist.expand(term)
    except hostlist.HostlistError as error:
        raise NodeSetError(str(error), error.hint) from None
    wrong = next((name for name in names if not _WORD.fullmatch(name)), None)
    if wrong is not None:
        raise NodeSetError(f"names {quote(wrong)}, which is no name", "lower-case letters, digits, _ and -")
    return names


def _meant(name: str, known: Known) -> tuple[str, ...] | None:
    if name in known.nodes:
        return (name,)
    if name == "all":
        return known.everything
    found = {kind: words[name] for kind, words in known.words.items() if name in words}
    if not found:
        raise NodeSetError(f"there is no {_listed(['node', *known.words])} {quote(name)}", _hint(name, known))
    if len(set(found.values())) > 1:
        raise NodeSetError(f"{quote(name)} is a {' and a '.join(found)} with other nodes", "write the nodes")
    return next(iter(found.values()))


def _hint(name: str, known: Known) -> str:
    """The word that was meant, or everything that may be named."""
    words = {kind: list(words) for kind, words in known.words.items() if words}
    if close := closest(name, [*known.nodes, *(word for each in words.values() for word in each)]):
        return f"did you mean `{close}`?"
    shown = [f"{kind}s: {', '.join(each[:_SHOWN])}" for kind, each in words.items()]
    return "; ".join([f"nodes: {hostlist.fold(known.nodes)}", *shown, "or all"])


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
