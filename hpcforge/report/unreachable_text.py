"""Why nodes cannot be reached, in the same words where it is the same: so that it is printed once, with a hostlist."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from hpcforge.blueprint.hostlist import fold

_LONGEST_ADDRESS = 64


def same_words(reasons: Mapping[str, str]) -> dict[str, str]:
    """Reasons by node; of those that differ only in `NODE (ADDRESS)`, the node itself, each with `the node` for it."""
    general = {
        name: re.sub(rf"\b{re.escape(name)} \([^()]{{1,{_LONGEST_ADDRESS}}}\)", "the node", why)
        for name, why in reasons.items()
    }
    count = Counter(general.values())
    return {name: general[name] if count[general[name]] > 1 else why for name, why in reasons.items()}


def by_reason(reasons: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Nodes as a hostlist, how many they are, and the reason that all of them have."""
    nodes: dict[str, list[str]] = {}
    for name, why in same_words(reasons).items():
        nodes.setdefault(why, []).append(name)
    return [(fold(names), len(names), why) for why, names in nodes.items()]
