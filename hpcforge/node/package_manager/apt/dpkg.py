"""dpkg's data: the states of packages, holds, and the files of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcforge.node import commands
from hpcforge.node.events import NodeError, readable

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.]")  # a name that ends in "-" would mean "remove" to apt
_QUERY_S = 60
JOURNAL = Path("/var/lib/dpkg/updates")
_LISTS = "var/lib/dpkg/info"  # the files of each package


def missing(names: Sequence[str]) -> list[str]:
    """Return the packages that are not installed and configured; NodeError without dpkg or for an invalid name."""
    requested = sorted(set(names))
    for name in requested:
        if not _NAME.fullmatch(name):
            raise NodeError(f"{name!r} is not a package name")
    if not requested:
        return []
    outcome = commands.run(["dpkg-query", "-W", "-f", "${Package}\\t${Status}\\n", *requested], _QUERY_S)
    if outcome.rc not in (0, 1):  # 1: some are unknown
        raise NodeError(f"dpkg-query: {readable(outcome.stderr)}")
    present = installed(outcome.whole("dpkg-query"))
    return [name for name in requested if name not in present]


def installed(text: str) -> set[str]:
    """Return the fully installed packages in `dpkg-query -W -f '${Package}\\t${Status}\\n'` output."""
    pairs = (line.split("\t") for line in text.splitlines())
    return {pair[0] for pair in pairs if len(pair) == 2 and pair[1].split()[1:] == ["ok", "installed"]}


def half_unpacked() -> list[str]:
    """Return the packages with interrupted unpacking: dpkg configures them only after they are unpacked again."""
    return sorted(pair[0] for pair in query("${binary:Package}\\t${db:Status-Eflag}\\n") if pair[-1] == "reinstreq")


def recorded(names: Sequence[str]) -> list[str]:
    """Return the packages that dpkg has a record of, also if only their configuration is left."""
    pairs = query("${Package}\\t${db:Status-Status}\\n", *names)
    return [pair[0] for pair in pairs if pair[-1] != "not-installed"]


def query(form: str, *names: str) -> list[list[str]]:
    """Return the fields of `dpkg-query -W -f FORM`, of all packages without names."""
    outcome = commands.run(["dpkg-query", "-W", "-f", form, "--", *names], _QUERY_S)
    return [line.split("\t") for line in outcome.whole("dpkg-query").splitlines()]


def is_held(name: str) -> bool:
    """Return whether a package is on hold."""
    outcome = commands.run(["dpkg-query", "-W", "-f", "${db:Status-Want}\\n", "--", name], _QUERY_S)
    return "hold" in outcome.stdout.split()


def hold(name: str, on: bool) -> None:
    """Hold a package, or release it."""
    commands.succeed(["apt-mark", "hold" if on else "unhold", "--", name], _QUERY_S)


def was_interrupted() -> bool:
    """Return whether dpkg's journal has entries: it was interrupted."""
    return any(path.name.isdigit() for path in JOURNAL.iterdir())


def list_of(name: str) -> Path:
    """Return the list of a package's files."""
    return Path("/", _LISTS, f"{name}.list")


def lists(root: Path) -> Iterator[Path]:
    """Yield the lists of the files of all packages of a system."""
    return root.glob(f"{_LISTS}/*.list")
