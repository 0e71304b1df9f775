"""Directories, see `hpcforge.node.files`.

The receipt has the directories that were made for one, itself first; none: it existed. At the very end of a removal
hpcforge deletes those that are empty and that no other program owns, see `hpcforge.node.remove`.
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


def obstacle(directory: Directory, record: list[str] | None) -> str | None:  # noqa: ARG001
    """Return the obstacle at its path: anything but a directory."""
    return files.obstacle(directory.path, "directory")


def own(name: str, change: Directory | None, made: set[str]) -> list[str]:  # noqa: ARG001
    """Return the directories that are missing, or that hpcforge made."""
    if os.path.lexists(name):
        return [name, *files.parents(name, made)] if name in made else []
    missing = [name, *files.parents(name, made)]
    made |= set(missing)
    return missing


def restore(name: str, record: list[str], report: EventReporter) -> None:
    """Do nothing yet: `hpcforge.node.remove` deletes directories last."""


def room(directory: Directory) -> list[SpaceNeed]:
    """Return the space for itself and one parent."""
    return [SpaceNeed(directory.path, BLOCK, 2)]
