"""What stays on a node of what goes: by the receipt before it goes, and by looking afterwards.

A `Stays` is `{"kind", "names": [what], "why"}`; kinds are package, file, directory, unit, account, home, path, work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from hpcforge.kinds import KINDS
from hpcforge.node import dpkg, units, unix
from hpcforge.node.events import Json
from hpcforge.node.kinds import accounts

PACKAGES = "hpcforge removes no packages, since others may need them by now: `apt-get purge` does"
CODE = "what its code made there is not in the receipt, and so not known to hpcforge"
RAN = "it ran before hpcforge, and goes on"
HOME = "the account is locked, and never deleted"
OPEN = "it was there before hpcforge, and is not locked"
OURS = "hpcforge logs in by it, and so it is not locked"
THERE = "it was there before hpcforge"
BEFORE = "it was there before hpcforge, and may have been changed by its role's code"
ALONE = "somebody has changed it, or put it in the way: left alone"
NOT_EMPTY = "there is something in it that is not hpcforge's"

_STILL = {"file": ALONE, "directory": NOT_EMPTY, "group": "somebody is in it"}  # of what was to go
_Said = tuple[str, str, str]  # kind, name, why
_KEPT = {**{kind.name: kind.one for kind in KINDS.values()}, "units": "unit", "trees": "path"}  # and how one is called


def expected(role: str, entry: Json, going: Mapping[str, Sequence[str]], whole: bool, coded: bool) -> list[Json]:
    """What stays when `going` (names by kind) is taken away of a role, of which the receipt has `entry`.

    `whole`: nothing of the role is wanted any more, and `coded`: its own code ran.
    """
    words = {one["path"]: one["why"] for one in entry["leaves"]}
    keeps = entry["on_remove"] == "keep"
    said = list(_kept(role, entry, going, words) if keeps else _by_kind(entry, going))
    if whole:
        said += [("package", name, PACKAGES) for name in going.get("packages", ()) if entry["on_remove"] != "purge"]
        said += [("path", path, why) for path, why in words.items() if not keeps or path not in _names(going)]
        said += [("work", role, CODE)] if coded and not (entry["trees"] or entry["leaves"]) else []
    return _told(said)


def found(stays: Iterable[Json], taken: Iterable[tuple[str, str]]) -> list[Json]:
    """What of this is there indeed, and what of the `taken` (kind and name) that were to go."""
    said = [(one["kind"], name, one["why"]) for one in stays for name in one["names"]]
    named = {name for _, name, _ in said}
    said += [(kind, name, _STILL[kind]) for kind, name in taken if name not in named]
    packages = [name for kind, name, _ in said if kind == "package"]
    there = set(packages) - set(dpkg.missing(packages))
    running = {name for name, one in units.query([n for kind, n, _ in said if kind == "unit"]).items() if one.runs}
    looks: dict[str, Callable[[str], bool]] = {
        "package": there.__contains__,
        "unit": running.__contains__,
        "account": accounts.is_there,
        "group": lambda name: unix.gid(name) is not None,
        **dict.fromkeys(("work", "membership", "sysctl"), lambda _: True),  # nobody else takes them away meanwhile
    }
    return _told(one for one in said if looks.get(one[0], os.path.lexists)(one[1]))


def _names(going: Mapping[str, Sequence[str]]) -> set[str]:
    return {name for kind in _KEPT for name in going.get(kind, ())}


def _kept(role: str, entry: Json, going: Mapping[str, Sequence[str]], words: Mapping[str, str]) -> Iterator[_Said]:
    for kind, one in _KEPT.items():
        for name in going.get(kind, ()):
            if entry[kind][name] != []:  # else it was there before us
                yield one, name, words.get(name, f"role {role} leaves all that it has")


def _by_kind(entry: Json, going: Mapping[str, Sequence[str]]) -> Iterator[_Said]:
    yield from (("unit", name, RAN) for name in going.get("units", ()) if entry["units"][name]["active"])
    for name in going.get("accounts", ()):
        home = accounts.home(name)
        if not entry["accounts"][name]:
            yield "account", name, OPEN
        elif name == os.environ.get("SUDO_USER"):
            yield "account", name, OURS
        elif home:
            yield "home", home, HOME
    for kind in ("groups", "memberships"):
        yield from ((_KEPT[kind], name, THERE) for name in going.get(kind, ()) if not entry[kind][name])
    yield from (("path", path, BEFORE) for path in going.get("trees", ()) if not entry["trees"][path])


def _told(said: Iterable[_Said]) -> list[Json]:
    """Those of one kind that stay for one reason together, each once."""
    names: dict[tuple[str, str], dict[str, None]] = {}
    for kind, name, why in said:
        names.setdefault((kind, why), {})[name] = None
    return [{"kind": kind, "names": list(several), "why": why} for (kind, why), several in names.items()]
