"""Preferences of apt's. The receipt has `{"before": what was at its path}`, see `hpcforge.node.backups`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcforge.node import files, written_files
from hpcforge.node.events import EventReporter, Json
from hpcforge.node.kinds import BLOCK, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.pins import Pin

FOLDER = "/etc/apt/preferences.d"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")  # with a dot in it apt might pass it over
_PIN = re.compile(r"(?:version|release|origin) \S.*")
_PACKAGE = re.compile(r"\S+")


def compare(wanted: Pin) -> Json | None:
    """Whether its file is as wanted."""
    return written_files.compare(wanted.name, _path(wanted.name), _text(wanted))


def obstacle(wanted: Pin, known: Json | None) -> str | None:  # noqa: ARG001
    """A name that apt would pass over, or what is no pin: apt itself takes no notice of one."""
    name = wanted.name
    if not _NAME.fullmatch(name):
        return f"{name!r} cannot be the name of a pin: letters, digits, _ and -"
    if not all(map(_PACKAGE.fullmatch, wanted.packages)):
        return f"pin {name}: a package, or a pattern of packages, is one word"
    if not _PIN.fullmatch(wanted.pin) or not wanted.packages:
        return f"pin {name}: packages, and `version ...`, `release ...` or `origin ...`, not {wanted.pin!r}"
    return written_files.obstacle(_path(name))


def put(wanted: Pin) -> str | None:
    """Write its file."""
    return files.put_text(_path(wanted.name), _text(wanted))


def own(name: str, change: Pin | None, made: set[str]) -> Json | None:  # noqa: ARG001
    """What was in its place."""
    return written_files.own(_path(name), change)


def restore(name: str, known: Json, report: EventReporter) -> str | None:  # noqa: ARG001
    """What was in its place before us."""
    return written_files.restore(_path(name), known)


def room(wanted: Pin) -> list[SpaceNeed]:
    """Its file."""
    return [SpaceNeed(_path(wanted.name), BLOCK, 1)]


def _path(name: str) -> str:
    return f"{FOLDER}/{name}"


def _text(wanted: Pin) -> str:
    return f"Package: {' '.join(wanted.packages)}\nPin: {wanted.pin}\nPin-Priority: {wanted.priority}\n"
