"""Why nodes cannot be reached, in the same words where it is the same: so that it is printed once, with a hostlist."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from hpcforge.blueprint.hostlist import fold

_WORD = re.compile(r"([\w-]+)( \([^()]{1,64}\))?")  # with an address


def same_words(reasons: Mapping[str, str]) -> dict[str, str]:
    """Reasons by node; of those that differ only in the node itself, each without its name and address.

    `NODE (ADDRESS)` is `the node` there; its name alone, as in a command, `NODE`, and that address alone `ADDRESS`.
    """
    general = {name: _general(name, why) for name, why in reasons.items()}
    count = Counter(general.values())
    return {name: general[name] if count[general[name]] > 1 else why for name, why in reasons.items()}


def _general(name: str, why: str) -> str:
    addresses = {word[2] for word in _WORD.finditer(why) if word[1] == name and word[2]}
    why = _WORD.sub(lambda word: word[0] if word[1] != name else "the node" if word[2] else "NODE", why)
    for address in addresses:
        why = why.replace(address.strip(" ()"), "ADDRESS")
    return why


def nodes_by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """The nodes that have each reason."""
    nodes: dict[str, list[str]] = {}
    for name, why in same_words(reasons).items():
        nodes.setdefault(why, []).append(name)
    return nodes


def by_reason(reasons: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Nodes as a hostlist, how many they are, and the reason that all of them have."""
    return [(fold(names), len(names), why) for why, names in nodes_by_reason(reasons).items()]
