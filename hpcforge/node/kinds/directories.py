"""Directories, see `hpcforge.node.files`.

The receipt has those that were made for one, itself first; none: it was there. At the very end
of a removal those go that are empty and that nobody else has, see `hpcforge.node.remove`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hpcforge.node import files
from hpcforge.node.events import EventReporter
from hpcforge.node.kinds import BLOCK, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.directories import Directory

compare = files.compare_directory
put = files.put_directory


def obstacle(wanted: Directory, known: list[str] | None) -> str | None:  # noqa: ARG001
    """Return the obstacle at its path: anything but a directory."""
    return files.obstacle(wanted.path, "directory")


def own(name: str, change: Directory | None, made: set[str]) -> list[str]:  # noqa: ARG001
    """Return the directories that are missing, or that hpcforge made."""
    if os.path.lexists(name):
        return [name, *files.parents(name, made)] if name in made else []
    found = [name, *files.parents(name, made)]
    made |= set(found)
    return found


def restore(name: str, known: list[str], report: EventReporter) -> None:
    """Not yet."""


def room(wanted: Directory) -> list[SpaceNeed]:
    """Itself, and one on the way to it."""
    return [SpaceNeed(wanted.path, BLOCK, 2)]
