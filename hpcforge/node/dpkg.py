"""Package states from dpkg."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hpcforge.node import commands
from hpcforge.node.events import NodeError, readable

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.]")  # a name that ends in "-" would mean "remove" to apt
_QUERY_S = 60


def missing(names: Sequence[str]) -> list[str]:
    """Those that are not installed and configured; NodeError on a system without dpkg or for what is no name."""
    wanted = sorted(set(names))
    for name in wanted:
        if not _NAME.fullmatch(name):
            raise NodeError(f"{name!r} is not a package name")
    if not wanted:
        return []
    outcome = commands.run(["dpkg-query", "-W", "-f", "${Package}\\t${Status}\\n", *wanted], _QUERY_S)
    if outcome.rc not in (0, 1):  # 1: some are not known
        raise NodeError(f"dpkg-query: {readable(outcome.stderr)}")
    there = installed(outcome.whole("dpkg-query"))
    return [name for name in wanted if name not in there]


def installed(text: str) -> set[str]:
    """Names of fully installed packages in `dpkg-query -W -f '${Package}\\t${Status}\\n'` output."""
    pairs = (line.split("\t") for line in text.splitlines())
    return {pair[0] for pair in pairs if len(pair) == 2 and pair[1].split()[1:] == ["ok", "installed"]}


def half_unpacked() -> list[str]:
    """Packages whose unpacking was interrupted: dpkg configures them only after another unpacking."""
    outcome = commands.run(["dpkg-query", "-W", "-f", "${binary:Package}\\t${db:Status-Eflag}\\n"], _QUERY_S)
    pairs = [line.split("\t") for line in outcome.whole("dpkg-query").splitlines()]
    return sorted(pair[0] for pair in pairs if pair[-1] == "reinstreq")


def known(names: Sequence[str]) -> list[str]:
    """Those of which dpkg has something, be it only configuration."""
    outcome = commands.run(["dpkg-query", "-W", "-f", "${Package}\\t${db:Status-Status}\\n", "--", *names], _QUERY_S)
    pairs = [line.split("\t") for line in outcome.whole("dpkg-query").splitlines()]
    return [pair[0] for pair in pairs if pair[-1] != "not-installed"]
