"""What apt would do: which packages would go for others to come. It changes nothing and waits for no lock."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from hpcforge.node import commands

_LIMIT_S = 20
_GOES = re.compile(r"^(?:Purg|Remv) ([^\s:]+)", re.MULTILINE)
_UNKNOWN = re.compile(r"Unable to locate package (\S+)|Package '?([^\s']+)'? has no installation candidate")


class Foreseen(NamedTuple):
    """`removes`: what would go, and the wanted packages that it goes for; `unforeseen`: those that apt cannot judge."""

    removes: dict[str, list[str]]
    unforeseen: frozenset[str]


def foresee(names: Collection[str]) -> Foreseen:
    """What would go if these were installed in one transaction, by the package lists that are on this node."""
    known = sorted(names)
    while known:
        outcome = _simulated(["install", "--no-install-recommends", "--", *known])
        if outcome.rc == 0:
            break
        lacking = unknown(outcome.stdout.splitlines()) & set(known)
        known = [name for name in known if name not in lacking] if lacking else []
    others = frozenset(names) - set(known)
    goes = leaving(outcome.whole("apt-get -s install")) if known else frozenset()
    by: dict[str, list[str]] = {name: [] for name in sorted(goes)}
    for name in known if goes else ():
        for gone in goes & (install([name]) or frozenset()):
            by[gone].append(name)
    return Foreseen({gone: causes or known for gone, causes in by.items()}, others)


def install(names: Sequence[str]) -> frozenset[str] | None:
    """What would go if these were installed; None where apt cannot say, for example of a package it does not know."""
    outcome = _simulated(["install", "--no-install-recommends", "--", *names])
    return leaving(outcome.whole("apt-get -s install")) if outcome.rc == 0 else None


def leaving(text: str) -> frozenset[str]:
    """The packages that go, by what `apt-get -s` says."""
    return frozenset(_GOES.findall(text))


def unknown(output: Sequence[str]) -> frozenset[str]:
    """Packages that apt says no source has."""
    return frozenset(first or second for line in output for first, second in _UNKNOWN.findall(line))


def _simulated(words: Sequence[str]) -> commands.Outcome:
    options = ["-o", "Debug::NoLocking=1", "-o", "APT::Get::AutomaticRemove=0"]
    return commands.run(["apt-get", "-s", "-q", *options, *words], _LIMIT_S, merge=True)
