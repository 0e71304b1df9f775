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
        outcome = _install(known)
        if outcome.rc == 0:
            break
        lacking = unknown(outcome.stdout.splitlines()) & set(known)
        known = [name for name in known if name not in lacking] if lacking else []
    others = frozenset(names) - set(known)
    goes = leaving(outcome.whole("apt-get install")) if known else frozenset()
    by: dict[str, list[str]] = {name: [] for name in sorted(goes)}
    for name in known if goes else ():
        for gone in goes & (install([name]) or frozenset()):
            by[gone].append(name)
    return Foreseen({gone: causes or known for gone, causes in by.items()}, others)


def install(names: Sequence[str]) -> frozenset[str] | None:
    """What would go if these were installed; None where apt cannot say, for example of a package it does not know."""
    outcome = _install(names)
    return leaving(outcome.whole("apt-get install")) if outcome.rc == 0 else None


def leaving(text: str) -> frozenset[str]:
    """The packages that go, by what `apt-get -s` says."""
    return frozenset(_GOES.findall(text))


def unknown(output: Sequence[str]) -> frozenset[str]:
    """Packages that apt says no source has."""
    return frozenset(first or second for line in output for first, second in _UNKNOWN.findall(line))


def refused(output: Sequence[str]) -> bool:
    """Whether apt-get did nothing since something would have to go, which `--no-remove` forbade."""
    return any("remove is disabled" in line for line in output)


def _install(names: Sequence[str]) -> commands.CommandResult:
    # To simulate takes twice as long as to find out that nothing goes, as is nearly always so.
    asked = _apt(["--print-uris", "--no-remove", "install", "--no-install-recommends", "--", *names])
    if asked.rc == 0 or not refused(asked.stdout.splitlines()):
        return asked
    return _apt(["-s", "install", "--no-install-recommends", "--", *names])


def _apt(words: Sequence[str]) -> commands.CommandResult:
    options = ["-o", "Debug::NoLocking=1", "-o", "APT::Get::AutomaticRemove=0"]
    return commands.run(["apt-get", "-q", *options, *words], _LIMIT_S, merge=True)
