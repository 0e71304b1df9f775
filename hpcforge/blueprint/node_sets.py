"""Node sets: the syntax that names several nodes, in a blueprint and in `--limit`. Pure.

Terms are joined by `,` (and) and `!` (without), and applied from left to right as in ClusterShell: `all!w03`, `r1,r2`.
A term is a hostlist or a word: `all`, a partition, a rack, a function, or a group (`gpu` for `gpu[001-032]`: the text
before the numbers). A node's name means that node. With `@` before it, as in clush, a word is never a node: `@worker`;
with a kind it is of that kind: `@rack:r1`. Hardware needs this form: `@hardware:dgx-h100`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.diagnostics import closest, quote
from hpcforge.errors import ExpectedError

EACH_PARTITION = "each partition"
Spell = Callable[[Sequence[str]], str]  # spells names as a hostlist

_OPERATOR_OR_BRACKETS = re.compile(r"[,!]|\[[^\]]*+")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")  # spelling of partitions, nodes, racks and functions
_MARK = re.compile(r"@(?:[a-z]+:)?")
_MARKED = re.compile(r"@(?:([a-z]+):)?([A-Za-z0-9][A-Za-z0-9_.-]{0,62})")
_TAKEN = ("all", "head", "login", "storage", "worker")  # words with a meaning of their own
_MARKED_ONLY = ("hardware",)  # kinds that need their mark: a model may be spelled like a rack
_SHOWN = 12


class NodeSetError(ExpectedError, ValueError):
    """Text that names no nodes; the message completes a sentence that begins with the text."""

    kind = "invalid"


@dataclass(frozen=True)
class KnownNames:
    """The valid names: nodes, and words by their kind. None instead of a word's nodes: they are not known yet."""

    nodes: Mapping[str, None]
    everything: tuple[str, ...]  # the nodes of `all`
    words: Mapping[str, Mapping[str, tuple[str, ...] | None]] = field(
        default_factory=dict
    )  # kind, such as "rack", to name to nodes

    def within(self, nodes: Iterable[str]) -> KnownNames:
        """Limit each word to those of its nodes that are among some, for sets that may name only workers."""
        allowed = frozenset(nodes)
        words = {
            kind: {word: _among(names, allowed) for word, names in by_word.items()}
            for kind, by_word in self.words.items()
        }
        return KnownNames(self.nodes, tuple(name for name in self.everything if name in allowed), words)


def _among(names: tuple[str, ...] | None, nodes: Collection[str]) -> tuple[str, ...] | None:
    return None if names is None else tuple(name for name in names if name in nodes)


def groups(members: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Return words for groups: the text before the numbers, unless it is the name of a function.

    Several groups whose names are spelled alike are one word.
    """
    by_stem: dict[str, list[str]] = {}
    for key, names in members.items():
        before = key.partition("[")[0]
        stem = before.rstrip("-")
        is_series = "[" in key and all(name.startswith(before) for name in names)
        if is_series and _WORD.fullmatch(stem) and stem not in _TAKEN:
            by_stem.setdefault(stem, []).extend(names)
    return {stem: tuple(names) for stem, names in by_stem.items()}


def named(nodes: Iterable[str], everything: Iterable[str], **words: Mapping[str, tuple[str, ...] | None]) -> KnownNames:
    """`Known` of these nodes and words."""
    return KnownNames(dict.fromkeys(nodes), tuple(everything), words)


def with_words(known_names: KnownNames, **words: Mapping[str, tuple[str, ...] | None]) -> KnownNames:
    """Add words of other kinds; hints list them first."""
    return replace(known_names, words={**words, **known_names.words})


def expand(text: str, known_names: KnownNames) -> tuple[str, ...] | None:
    """Return the nodes in the order in which they are named, each once; None where a word's nodes are not known yet.

    Raises:
        NodeSetError: it is no node set, or names what there is not.
    """
    chosen: dict[str, None] = {}
    unsure = False
    try:
        terms = [*_terms(text)]
    except NodeSetError as error:
        raise NodeSetError(str(error), _mark_hint(text, known_names) or error.hint) from None
    for less, names in terms:
        unknown = [name for name in names if not _is_name(name, known_names)]
        if unknown:
            kinds = ["node", *(kind for kind in known_names.words if kind not in _MARKED_ONLY)]
            problem = (
                f"is no {_listed(kinds)}" if len(unknown) == 1 else f"are no {_listed([f'{kind}s' for kind in kinds])}"
            )
            raise NodeSetError(f"there {problem} {quote(hostlist.fold(unknown))}", _hint(names, known_names))
        for name in names:
            nodes = _nodes_of_name(name, known_names)
            unsure |= nodes is None
            for node in nodes or ():
                if less:
                    chosen.pop(node, None)
                else:
                    chosen[node] = None
    return None if unsure else tuple(chosen)


def sure(text: str, known_names: KnownNames) -> tuple[str, ...]:
    """Return the nodes of a checked set. A KeyError means that the checks missed an error."""
    names = expand(text, known_names)
    if names is None:
        raise KeyError(text)
    return names


def check(text: str) -> str:
    """Return the text if it is spelled as a node set. Raises NodeSetError."""
    for _ in _terms(text):
        pass
    return text


def rewritten(text: str, change: Callable[[bool, tuple[str, ...]], tuple[str, ...]], spell: Spell) -> str:
    """Change the names of each term of a set; `change` also gets whether the term is subtracted.

    A term without names is dropped; a set stays unchanged if nothing, or no first term, would remain.
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
    """Yield the terms: the names of each, and whether its nodes are removed."""
    for less, names, _ in _spelled_terms(text):
        yield less, names


def _spelled_terms(text: str) -> Iterator[tuple[bool, tuple[str, ...], str]]:
    start, less = 0, False
    for match in (*_OPERATOR_OR_BRACKETS.finditer(text), None):
        if match is not None and match[0].startswith("["):
            continue
        term = text[start : len(text) if match is None else match.start()]
        yield less, _names(term), term
        if match is not None:
            start, less = match.end(), match[0] == "!"


def _names(term: str) -> tuple[str, ...]:
    if _WORD.fullmatch(term) or _MARKED.fullmatch(term):
        return (term,)
    match = _MARK.match(term)
    if match and match[0] == term:
        kind = term.strip("@:") or "group"
        raise NodeSetError(f"has no name of a {kind} after `{term}`", "as in @worker or @rack:r1")
    mark = match[0] if match and len(term) > len(match[0]) else ""
    try:
        names = hostlist.expand(term.removeprefix(mark))
    except hostlist.HostlistError as error:
        raise NodeSetError(str(error), error.hint) from None
    wrong = next((name for name in names if not _WORD.fullmatch(name)), None)
    if wrong is not None:
        raise NodeSetError(f"names {quote(wrong)}, which is not a valid name", "letters, digits, _, . and -")
    return tuple(f"{mark}{name}" for name in names) if mark else names


def _is_name(name: str, known_names: KnownNames) -> bool:
    if name in known_names.nodes:
        return True
    word = name.rpartition(":")[2].removeprefix("@")
    return word == "all" or any(word in words for words in _kinds(name, known_names).values())


def _kinds(name: str, known_names: KnownNames) -> Mapping[str, Mapping[str, tuple[str, ...] | None]]:
    """Return the words that a name may be: for `@rack:r1` only racks."""
    marked = _MARKED.fullmatch(name)
    if marked and marked[1]:
        return {kind: words for kind, words in known_names.words.items() if kind == marked[1]}
    return {kind: words for kind, words in known_names.words.items() if kind not in _MARKED_ONLY}


def _nodes_of_name(name: str, known_names: KnownNames) -> tuple[str, ...] | None:
    if name in known_names.nodes:
        return (name,)
    word = name.rpartition(":")[2].removeprefix("@")
    if word == "all":
        return known_names.everything
    by_kind = {kind: words[word] for kind, words in _kinds(name, known_names).items() if word in words}
    if len(set(by_kind.values())) > 1:
        raise NodeSetError(f"{quote(name)} is a {' and a '.join(by_kind)} with other nodes", "write the nodes")
    return next(iter(by_kind.values()))


def _hint(names: Sequence[str], known_names: KnownNames) -> str:
    """Return the names that were probably meant, or everything that may be named. All have the same mark."""
    words = [name.rpartition(":")[2].removeprefix("@") for name in names]
    mark = names[0].removesuffix(words[0])
    kinds = _kinds(names[0], known_names)
    candidates = [*(() if mark else known_names.nodes), *(word for of_kind in kinds.values() for word in of_kind)]
    if guess := _with_same_numbers(words, candidates) or _of_another_kind(words, mark, known_names):
        return f"did you mean `{guess if guess.startswith('@') else f'{mark}{guess}'}`?"
    if mark and all(word in known_names.nodes for word in words):
        return f"did you mean `{hostlist.fold(words)}`?"
    if len(words) == 1 and (close := closest(words[0], candidates)):
        return f"did you mean `{mark}{close}`?"
    return "; ".join(
        [
            *([] if mark else [f"nodes: {hostlist.fold(known_names.nodes)}"]),
            *_shown(kinds or known_names.words),
            "or all",
        ]
    )


def _with_same_numbers(words: Sequence[str], candidates: Iterable[str]) -> str | None:
    """Return the names that have the same letters and numbers, if all have: w01 for w1, gpu-001 for gpu1."""
    by_name = {name: name for name in candidates}
    by_number = {_numbered(name): name for name in by_name}
    matches = [by_name.get(word) or by_number.get(_numbered(word)) for word in words]
    names = [name for name in matches if name is not None]
    return hostlist.fold(names) if len(names) == len(words) else None


def _numbered(name: str) -> tuple[str, int | None]:
    """Return the letters of a name, and its number."""
    stem = name.rstrip("0123456789")
    return stem.rstrip("-_"), int(name[len(stem) :]) if len(stem) < len(name) else None


def _of_another_kind(words: Sequence[str], mark: str, known_names: KnownNames) -> str | None:
    """Return the names with the mark of the first kind that has them all."""
    kinds = (kind for kind in known_names.words if mark or kind in _MARKED_ONLY)
    others = (kind for kind in kinds if all(word in known_names.words[kind] for word in words))
    return next((f"@{kind}:{hostlist.fold(words)}" for kind in others), None)


def _mark_hint(text: str, known_names: KnownNames) -> str | None:
    """Return what was probably meant by a mark without its `@`, or without a name: `rack:r1`, `rack=r1`, `@rack:`."""
    for term in re.split("[,!]", text):
        head, mark, rest = term.replace("=", ":").partition(":")
        kind = closest(head.removeprefix("@"), [*known_names.words]) if mark else None
        if kind is not None:
            guess = _with_same_numbers(_spelled(rest), known_names.words[kind])
            if guess:
                return f"did you mean `@{kind}:{guess}`?"
            return "; ".join(
                [f"as in `@{kind}:{name}`" for name in [*known_names.words[kind]][:1]]
                + [*_shown({kind: known_names.words[kind]})]
            )
        if term == "@":
            return "; ".join(_shown(known_names.words))
    return None


def _spelled(term: str) -> tuple[str, ...]:
    """Return the names of a term; the term itself if it has none."""
    try:
        return _names(term)
    except NodeSetError:
        return (term,)


def _shown(words: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield the first words of each kind that has any."""
    for kind, of_kind in words.items():
        if shown := [*of_kind][:_SHOWN]:
            yield f"{kind if kind in _MARKED_ONLY else f'{kind}s'}: {', '.join(shown)}"


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
