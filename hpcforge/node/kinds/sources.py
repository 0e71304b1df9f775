"""Where packages come from: a file of apt's deb822 form, with the key that signs in it.

The receipt has `{"before": what was at its path}`, see `hpcforge.node.backups`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpcforge.node import files, written_files
from hpcforge.node.events import EventReporter, Json
from hpcforge.node.kinds import BLOCK, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.sources import PackageSource

FOLDER = "/etc/apt/sources.list.d"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # other names apt passes over
_KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_PATH = re.compile(r"/\S+")


def compare(wanted: PackageSource) -> Json | None:
    """Whether its file is as wanted."""
    return written_files.compare(wanted.name, _path(wanted.name), _text(wanted))


def obstacle(wanted: PackageSource, known: Json | None) -> str | None:  # noqa: ARG001
    """A name that apt would pass over, or a key that is none."""
    name, key = wanted.name, wanted.signed_by.strip()
    if not _NAME.fullmatch(name):
        return f"{name!r} cannot be the name of a package source: letters, digits, and _ . -"
    if not key.startswith(_KEY) and not _PATH.fullmatch(key):
        return f"package source {name}: signed_by is neither an absolute path nor a public key in ASCII armour"
    words = (*wanted.uris, *wanted.suites, *wanted.components, *wanted.architectures)
    if any(len(word.split()) != 1 for word in words):
        return f"package source {name}: an address, suite, component or architecture is one word each"
    return written_files.obstacle(_path(name))


def put(wanted: PackageSource) -> str | None:
    """Write its file."""
    return files.put_text(_path(wanted.name), _text(wanted))


def own(name: str, change: PackageSource | None, made: set[str]) -> Json | None:  # noqa: ARG001
    """What was in its place."""
    return written_files.own(_path(name), change)


def restore(name: str, known: Json, report: EventReporter) -> str | None:  # noqa: ARG001
    """What was in its place before us."""
    return written_files.restore(_path(name), known)


def room(wanted: PackageSource) -> list[SpaceNeed]:
    """Its file, and what apt will know of what is there."""
    return [SpaceNeed(_path(wanted.name), len(_text(wanted)) + BLOCK, 1)]


def _path(name: str) -> str:
    return f"{FOLDER}/{name}.sources"


def _text(wanted: PackageSource) -> str:
    fields = {
        "Types": " deb",
        "URIs": _words(wanted.uris),
        "Suites": _words(wanted.suites),
        "Components": _words(wanted.components),
        "Architectures": _words(wanted.architectures),
        "Signed-By": _signed_by(wanted.signed_by.strip()),
    }
    return "".join(f"{field}:{value}\n" for field, value in fields.items() if value.strip())


def _words(words: Sequence[str]) -> str:
    return "".join(f" {word}" for word in words)


def _signed_by(key: str) -> str:
    """A key's lines, each begun by a blank, and a dot for one that is empty."""
    return f" {key}" if key.startswith("/") else "".join(f"\n {line.rstrip() or '.'}" for line in key.splitlines())
