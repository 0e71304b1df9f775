"""Packages that are held, as dpkg keeps it. The receipt has whether we hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcforge.node import commands, dpkg
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.holds import Hold

_TIMEOUT_S = 60


def compare(wanted: Hold) -> Json | None:
    """Whether it is held."""
    name = wanted.name
    return None if _is_held(name) else {"name": name, "exists": not dpkg.missing([name])}


def obstacle(wanted: Hold, known: bool | None) -> str | None:  # noqa: ARG001
    """A name that is none. The package may come with the same request."""
    try:
        dpkg.missing([wanted.name])
    except NodeError as error:
        return str(error)
    return None


def put(wanted: Hold) -> str | None:
    """Hold it."""
    name = wanted.name
    if _is_held(name):
        return None
    if dpkg.missing([name]):
        raise NodeError(f"package {name!r} cannot be held: it is not installed; a role must install it")
    commands.succeed(["apt-mark", "hold", "--", name], _TIMEOUT_S)
    return "held"


def own(name: str, change: Hold | None, made: set[str]) -> bool:  # noqa: ARG001
    """Whether we are to hold it."""
    return not _is_held(name)


def restore(name: str, known: bool, report: EventReporter) -> str | None:  # noqa: ARG001
    """Let go of what we hold."""
    if not known or not _is_held(name):
        return None
    commands.succeed(["apt-mark", "unhold", "--", name], _TIMEOUT_S)
    return "let go of"


def room(wanted: Hold) -> list[SpaceNeed]:  # noqa: ARG001
    """A line of dpkg's status, which is written anew."""
    return [SpaceNeed("/var/lib/dpkg", 0, 2)]


def _is_held(name: str) -> bool:
    outcome = commands.run(["dpkg-query", "-W", "-f", "${db:Status-Want}\\n", "--", name], _TIMEOUT_S)
    return "hold" in outcome.stdout.split()
