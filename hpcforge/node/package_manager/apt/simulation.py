"""Simulate apt: the packages that an installation removes. It changes nothing and waits for no lock."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from hpcforge.node import commands
from hpcforge.node.package_manager import Foreseen

_LIMIT_S = 20
_INSTALLED = re.compile(
    r"^The following (?:NEW packages will be installed|packages will be (?:upgraded|DOWNGRADED)):\n((?:  .*\n)+)",
    re.MULTILINE,
)
_GOES = re.compile(r"^(?:Purg|Remv) ([^\s:]+)", re.MULTILINE)
_REMOVED = re.compile(r"^The following packages will be REMOVED:\n((?:  .*\n)+)", re.MULTILINE)
_URI = re.compile(r"^'([^']+)' \S+ (\d+)", re.MULTILINE)
_UNKNOWN = re.compile(r"Unable to locate package (\S+)|Package '?([^\s']+)'? has no installation candidate")


class Simulation(NamedTuple):
    """The packages in lists of this node, and the result of their simulated transaction."""

    available: tuple[str, ...]
    result: commands.CommandResult


_last: dict[frozenset[str], Simulation] = {}


def simulate(names: Collection[str], options: Sequence[str] = ()) -> Simulation:
    """Simulate one transaction, without packages that are in no list of this node."""
    available, result = sorted(names), commands.CommandResult(0, "", "", False)
    while available:
        result = _install(available, options)
        lacking = unknown(result.stdout.splitlines()) & set(available)
        if result.rc == 0 or not lacking:
            break
        available = [name for name in available if name not in lacking]
    return Simulation(tuple(available), result)


def last(names: Collection[str]) -> Simulation:
    """Return the simulation of these names by `foresee`, or simulate them."""
    return _last.get(frozenset(names)) or simulate(names)


def foresee(names: Collection[str]) -> Foreseen:
    """Return the packages removed if these were installed in one transaction, by the package lists on this node."""
    _last.clear()
    simulation = _last[frozenset(names)] = simulate(names)
    available = list(simulation.available) if simulation.result.rc == 0 else []
    others = frozenset(names) - set(available)
    removals = leaving(simulation.result.whole("apt-get install")) if available else frozenset()
    by: dict[str, list[str]] = {name: [] for name in sorted(removals)}
    for name in available if removals else ():
        for package in removals & (install([name]) or frozenset()):
            by[package].append(name)
    return Foreseen({package: causes or available for package, causes in by.items()}, others)


def install(names: Sequence[str]) -> frozenset[str] | None:
    """Return the packages removed if these were installed; None if apt fails, for example for an unknown package."""
    outcome = _install(names)
    return leaving(outcome.whole("apt-get install")) if outcome.rc == 0 else None


def leaving(text: str) -> frozenset[str]:
    """Return the packages that `apt-get -s` or `apt-get --print-uris` would remove."""
    return frozenset(_GOES.findall(text)) | _names(_REMOVED, text)


def installed(text: str) -> frozenset[str]:
    """Return the packages that `apt-get install` would install, upgrade or downgrade, from its output."""
    return _names(_INSTALLED, text)


def archives(text: str) -> list[tuple[int, str]]:
    """Return size in bytes and address of each archive that `apt-get --print-uris` would fetch."""
    return [(int(size), uri) for uri, size in _URI.findall(text)]


def unknown(output: Sequence[str]) -> frozenset[str]:
    """Return the packages that no source has, according to apt."""
    return frozenset(first or second for line in output for first, second in _UNKNOWN.findall(line))


def refused(output: Sequence[str]) -> bool:
    """Return whether apt-get refused to remove packages because of `--no-remove`."""
    return any("remove is disabled" in line for line in output)


def _install(names: Sequence[str], options: Sequence[str] = ()) -> commands.CommandResult:
    # `-s` takes twice as long.
    words = ["install", "--no-install-recommends", "--", *names]
    outcome = _apt([*options, "--print-uris", "--no-remove", *words])
    if outcome.rc == 0 or not refused(outcome.stdout.splitlines()):
        return outcome
    return _apt([*options, "--print-uris", *words])


def _names(blocks: re.Pattern[str], text: str) -> frozenset[str]:
    return frozenset(re.split("[:*]", word)[0] for block in blocks.findall(text) for word in block.split())


def _apt(words: Sequence[str]) -> commands.CommandResult:
    options = ["-o", "Debug::NoLocking=1", "-o", "APT::Get::AutomaticRemove=0"]
    return commands.run(["apt-get", "-q", *options, *words], _LIMIT_S, merge=True)
