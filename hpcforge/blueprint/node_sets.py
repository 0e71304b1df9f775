"""Node sets: what names nodes wherever several can be meant, in a blueprint and in `--limit`. Pure.

Terms are joined by `,` (and) and `!` (less), worked off from left to right as in ClusterShell: `all!w03`, `r1,r2`.
A term is a hostlist, or a word: `all`, a partition, a rack, a function, a group (what the names of a group have before
their numbers: `gpu` of `gpu[001-032]`). What is the name of a node is that node. With `@` before it, as clush has
it, a word is no node: `@worker`; and of one kind alone: `@rack:r1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.diagnostics import closest, quote
from hpcforge.errors import ExpectedError

EACH_PARTITION = "each partition"
Spell = Callable[[Sequence[str]], str]  # names as a hostlist

_OPERATOR_OR_BRACKETS = re.compile(r"[,!]|\[[^\]]*+")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")  # as names of partitions, nodes, racks and functions are spelled
_MARK = re.compile(r"@(?:[a-z]+:)?")
_MARKED = re.compile(r"@(?:([a-z]+):)?([A-Za-z0-9][A-Za-z0-9_.-]{0,62})")
_TAKEN = ("all", "head", "login", "storage", "worker")  # words of their own
_SHOWN = 12


class NodeSetError(ExpectedError, ValueError):
    """Text that names no nodes; the message completes a sentence that begins with the text."""

    kind = "invalid"


@dataclass(frozen=True)
class KnownNames:
    """What may be named: nodes, and words by their kind. A word's nodes are None as long as nobody knows them."""

    nodes: Mapping[str, None]
    everything: tuple[str, ...]  # what `all` means
    words: Mapping[str, Mapping[str, tuple[str, ...] | None]] = field(
        default_factory=dict
    )  # "rack" -> its name -> nodes

    def within(self, some: Iterable[str]) -> KnownNames:
        """The same words, each for those of its nodes that are among some, as where only workers can be meant."""
        those = frozenset(some)
        words = {
            kind: {word: _among(names, those) for word, names in each.items()} for kind, each in self.words.items()
        }
        return KnownNames(self.nodes, tuple(name for name in self.everything if name in those), words)


def _among(names: tuple[str, ...] | None, some: Collection[str]) -> tuple[str, ...] | None:
    return None if names is None else tuple(name for name in names if name in some)


def groups(members: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Words for groups, of nodes by their key: what stands before the numbers, if that is not the name of a function.

    Several groups whose names are spelled alike are one word.
    """
    found: dict[str, list[str]] = {}
    for key, names in members.items():
        before = key.partition("[")[0]
        stem = before.rstrip("-")
        alike = "[" in key and all(name.startswith(before) for name in names)
        if alike and _WORD.fullmatch(stem) and stem not in _TAKEN:
            found.setdefault(stem, []).extend(names)
    return {stem: tuple(names) for stem, names in found.items()}


def named(nodes: Iterable[str], everything: Iterable[str], **words: Mapping[str, tuple[str, ...] | None]) -> KnownNames:
    """`Known` of these nodes and words."""
    return KnownNames(dict.fromkeys(nodes), tuple(everything), words)


def with_words(known: KnownNames, **words: Mapping[str, tuple[str, ...] | None]) -> KnownNames:
    """More words of other kinds, which are told of first."""
    return replace(known, words={**words, **known.words})


def expand(text: str, known: KnownNames) -> tuple[str, ...] | None:
    """The nodes in the order in which they are named, each once; None where a word's nodes are not known yet.

    Raises:
        NodeSetError: it is no node set, or names what there is not.
    """
    chosen: dict[str, None] = {}
    unsure = False
    for less, names in _terms(text):
        unknown = [name for name in names if not _is_known(name, known)]
        if unknown:
            kinds = ["node", *known.words]
            what = (
                f"is no {_listed(kinds)}" if len(unknown) == 1 else f"are no {_listed([f'{kind}s' for kind in kinds])}"
            )
            raise NodeSetError(f"there {what} {quote(hostlist.fold(unknown))}", _hint(names, known))
        for name in names:
            meant = _meant(name, known)
            unsure |= meant is None
            for node in meant or ():
                if less:
                    chosen.pop(node, None)
                else:
                    chosen[node] = None
    return None if unsure else tuple(chosen)


def sure(text: str, known: KnownNames) -> tuple[str, ...]:
    """Return the nodes of a checked set. A KeyError means that the checks missed an error."""
    names = expand(text, known)
    if names is None:
        raise KeyError(text)
    return names


def check(text: str) -> str:
    """Return the text if it is spelled as a node set. Raises NodeSetError."""
    for _ in _terms(text):
        pass
    return text


def rewritten(text: str, change: Callable[[bool, tuple[str, ...]], tuple[str, ...]], spell: Spell) -> str:
    """The set with the names of each term changed; `change` is told whether they are taken away, too.

    A term that is left without names goes; a set of which nothing would be left, or nothing to take from, stays.
    """
    parts: list[tuple[str, str]] = []
    for less, names, term in _spelled_terms(text):
        after = change(less, names)
        if after:
            parts.append(("!" if less else ",", term if after == names else spell(after)))
    if not parts or parts[0][0] == "!":
        return text
    return "".join(operator + term for operator, term in parts)[1:]


def _terms(text: str) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Whether nodes are taken away, and the names of each term."""
    for less, names, _ in _spelled_terms(text):
        yield less, names


def _spelled_terms(text: str) -> Iterator[tuple[bool, tuple[str, ...], str]]:
    """The terms, each with its text, too."""
    start, less = 0, False
    for found in (*_OPERATOR_OR_BRACKETS.finditer(text), None):
        if found is not None and found[0].startswith("["):
            continue
        term = text[start : len(text) if found is None else found.start()]
        yield less, _names(term), term
        if found is not None:
            start, less = found.end(), found[0] == "!"


def _names(term: str) -> tuple[str, ...]:
    if _WORD.fullmatch(term) or _MARKED.fullmatch(term):
        return (term,)
    found = _MARK.match(term)
    mark = found[0] if found and len(term) > len(found[0]) else ""
    try:
        names = hostlist.expand(term.removeprefix(mark))
    except hostlist.HostlistError as error:
        raise NodeSetError(str(error), error.hint) from None
    wrong = next((name for name in names if not _WORD.fullmatch(name)), None)
    if wrong is not None:
        raise NodeSetError(f"names {quote(wrong)}, which is no name", "letters, digits, _, . and -")
    return tuple(f"{mark}{name}" for name in names) if mark else names


def _is_known(name: str, known: KnownNames) -> bool:
    if name in known.nodes:
        return True
    word = name.rpartition(":")[2].removeprefix("@")
    return word == "all" or any(word in words for words in _kinds(name, known).values())


def _kinds(name: str, known: KnownNames) -> Mapping[str, Mapping[str, tuple[str, ...] | None]]:
    """Return the words that a name may be one of: of `@rack:r1` those that are racks."""
    marked = _MARKED.fullmatch(name)
    return {kind: words for kind, words in known.words.items() if not marked or marked[1] in (None, kind)}


def _meant(name: str, known: KnownNames) -> tuple[str, ...] | None:
    if name in known.nodes:
        return (name,)
    word = name.rpartition(":")[2].removeprefix("@")
    if word == "all":
        return known.everything
    found = {kind: words[word] for kind, words in _kinds(name, known).items() if word in words}
    if len(set(found.values())) > 1:
        raise NodeSetError(f"{quote(name)} is a {' and a '.join(found)} with other nodes", "write the nodes")
    return next(iter(found.values()))


def _hint(names: Sequence[str], known: KnownNames) -> str:
    """The word that was meant, or everything that may be named."""
    words = {kind: list(words) for kind, words in known.words.items() if words}
    everything = [*known.nodes, *(word for each in words.values() for word in each)]
    if len(names) == 1 and (close := closest(names[0], everything)):
        return f"did you mean `{close}`?"
    shown = [f"{kind}s: {', '.join(each[:_SHOWN])}" for kind, each in words.items()]
    return "; ".join([f"nodes: {hostlist.fold(known.nodes)}", *shown, "or all"])


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
