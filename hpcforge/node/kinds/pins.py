"""Pins: preferences of the package manager, each in a file.

The receipt has `{"before": the earlier entry at its path}`, see `hpcforge.node.backups`. On a node whose package
manager has no such files a pin is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcforge.node import files, package_manager, written_files
from hpcforge.node.events import EventReporter, Json
from hpcforge.node.kinds import BLOCK, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.pins import Pin


def compare(pin: Pin) -> Json | None:
    """Return its state, if its file differs."""
    form = _form()
    return written_files.compare(pin.name, form.path(pin.name), form.text(pin))


def obstacle(pin: Pin, record: Json | None) -> str | None:  # noqa: ARG001
    """Return the obstacle: a name that the package manager would ignore, or an invalid pin."""
    form = _form()
    return form.error(pin) or written_files.obstacle(form.path(pin.name))


def put(pin: Pin) -> str | None:
    """Write its file."""
    form = _form()
    return files.put_text(form.path(pin.name), form.text(pin))


def own(name: str, change: Pin | None, made: set[str]) -> Json | None:  # noqa: ARG001
    """Return the earlier entry in its place."""
    return written_files.own(_form().path(name), change)


def restore(name: str, record: Json, report: EventReporter) -> str | None:  # noqa: ARG001
    """Restore the earlier entry in its place."""
    return written_files.restore(_form().path(name), record)


def room(pin: Pin) -> list[SpaceNeed]:
    """Return the space for its file."""
    return [SpaceNeed(_form().path(pin.name), BLOCK, 1)]


def _form() -> package_manager.SettingsForm:
    return package_manager.of_node().settings("pins")
