"""The parts of removed roles that stay on a node: predicted from the receipt, and checked after the removal.

An item is `{"kind", "names": [name], "why"}`; kinds are package, file, directory, unit, account, home, path, work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from hpcforge.kinds import TABLE, ResourceKind
from hpcforge.node import package_manager, units
from hpcforge.node.events import Json
from hpcforge.node.kinds import KeepsOnRemoval, KeptItem, handler

PACKAGES = "packages stay installed, since others may need them; `{}` removes them"
CODE = "the node's record does not list what the role's code created"
RAN = "it ran before hpcforge and still runs"
BEFORE = "it existed before hpcforge, and may have been changed by its role's code"
ALONE = "it was changed or created outside hpcforge: not touched"
NOT_EMPTY = "it contains files that are not hpcforge's"

_KEPT = {**{kind.name: kind.singular for kind in TABLE}, "units": "unit", "trees": "path"}


def expected(role: str, entry: Json, removals: Mapping[str, Sequence[str]], entire: bool, coded: bool) -> list[Json]:
    """Return the items that stay when `removals` (names by kind) leave a role; `entry` is its part of the receipt.

    `entire`: no resource of the role stays; `coded`: its own code ran. Missing packages and paths do not stay: after a
    run that failed before it installed them, the receipt may have them all the same.
    """
    words = {leftover["path"]: leftover["why"] for leftover in entry["leaves"]}
    keeps = entire and entry["on_remove"] == "keep"
    items = list(_kept_items(role, entry, removals, words) if keeps else _by_kind(entry, removals))
    if entire:
        packages = list(removals.get("packages", ())) if entry["on_remove"] != "purge" else []
        manager = package_manager.of_node()
        lacking = manager.missing(packages)
        items += [("package", name, PACKAGES.format(manager.purger)) for name in packages if name not in lacking]
        others = [path for path in words if not keeps or path not in _names(removals)]
        items += [("path", path, words[path]) for path in others if os.path.lexists(path)]
        items += [("work", role, CODE)] if coded and not (entry["trees"] or entry["leaves"]) else []
    return _grouped(items)


def existing(stays: Iterable[Json], files: Iterable[str], directories: Iterable[str]) -> list[Json]:
    """Return the items that exist, and those of `files` and `directories` to be removed that still exist."""
    items = [(remnant["kind"], name, remnant["why"]) for remnant in stays for name in remnant["names"]]
    packages = [name for kind, name, _ in items if kind == "package"]
    installed = set(packages) - set(package_manager.of_node().missing(packages))
    running = {name for name, unit in units.query([n for kind, n, _ in items if kind == "unit"]).items() if unit.runs}
    looks: dict[str, Callable[[str], bool]] = {"package": installed.__contains__, "unit": running.__contains__}
    kinds = {remnant[0] for remnant in items}
    looks |= {
        kind.singular: lingers.is_there
        for kind, lingers in _lingering(kind for kind in TABLE if kind.singular in kinds)
    }
    looks["work"] = lambda _: True
    remaining = [remnant for remnant in items if looks.get(remnant[0], os.path.lexists)(remnant[1])]
    names = {name for _, name, _ in remaining}
    remaining += [("file", path, ALONE) for path in files if path not in names and os.path.lexists(path)]
    remaining += [("directory", path, NOT_EMPTY) for path in directories if path not in names and os.path.lexists(path)]
    return _grouped(remaining)


def _names(removals: Mapping[str, Sequence[str]]) -> set[str]:
    return {name for kind in _KEPT for name in removals.get(kind, ())}


def _kept_items(
    role: str, entry: Json, removals: Mapping[str, Sequence[str]], words: Mapping[str, str]
) -> Iterator[KeptItem]:
    for kind, noun in _KEPT.items():
        for name in removals.get(kind, ()):
            if entry[kind][name] != []:  # else it existed before hpcforge
                yield noun, name, words.get(name, f"role {role} keeps everything")


def _by_kind(entry: Json, removals: Mapping[str, Sequence[str]]) -> Iterator[KeptItem]:
    yield from (("unit", name, RAN) for name in removals.get("units", ()) if entry["units"][name]["active"])
    for kind, lingers in _lingering(kind for kind in TABLE if removals.get(kind.name)):
        items = (lingers.stays(name, entry[kind.name][name]) for name in removals[kind.name])
        yield from (remnant for remnant in items if remnant)
    yield from (("path", path, BEFORE) for path in removals.get("trees", ()) if not entry["trees"][path])


def _lingering(kinds: Iterable[ResourceKind]) -> Iterator[tuple[ResourceKind, KeepsOnRemoval]]:
    """Yield the kinds of which something may stay; others are not imported, since the node compiles each module."""
    for kind in kinds:
        module = handler(kind.name)
        if isinstance(module, KeepsOnRemoval):
            yield kind, module


def _grouped(items: Iterable[KeptItem]) -> list[Json]:
    """Group items of the same kind and reason, each name once."""
    names: dict[tuple[str, str], dict[str, None]] = {}
    for kind, name, reason in items:
        names.setdefault((kind, reason), {})[name] = None
    return [{"kind": kind, "names": list(several), "why": reason} for (kind, reason), several in names.items()]
