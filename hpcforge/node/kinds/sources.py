"""Package sources: a file of the package manager, with the key that signs in it.

The receipt has `{"before": the earlier entry at its path}`, see `hpcforge.node.backups`. On a node whose package
manager has no such files a source is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcforge.node import files, package_manager, written_files
from hpcforge.node.events import EventReporter, Json
from hpcforge.node.kinds import BLOCK, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.sources import PackageSource


def compare(source: PackageSource) -> Json | None:
    """Return its state, if its file differs."""
    form = _form()
    return written_files.compare(source.name, form.path(source.name), form.text(source))


def obstacle(source: PackageSource, record: Json | None) -> str | None:  # noqa: ARG001
    """Return the obstacle: a name that the package manager would ignore, or an invalid key."""
    form = _form()
    return form.error(source) or written_files.obstacle(form.path(source.name))


def put(source: PackageSource) -> str | None:
    """Write its file."""
    form = _form()
    return files.put_text(form.path(source.name), form.text(source))


def own(name: str, change: PackageSource | None, made: set[str]) -> Json | None:  # noqa: ARG001
    """Return the earlier entry in its place."""
    return written_files.own(_form().path(name), change)


def restore(name: str, record: Json, report: EventReporter) -> str | None:  # noqa: ARG001
    """Restore the earlier entry in its place."""
    return written_files.restore(_form().path(name), record)


def room(source: PackageSource) -> list[SpaceNeed]:
    """Return the space for its file."""
    form = _form()
    return [SpaceNeed(form.path(source.name), len(form.text(source)) + BLOCK, 1)]


def _form() -> package_manager.SettingsForm:
    return package_manager.of_node().settings("sources")
