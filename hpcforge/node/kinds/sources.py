"""Where packages come from: a file of apt's deb822 form, with the key that signs in it.

The receipt has `{"before": what was at its path}`, see `hpcforge.node.originals`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpcforge.node import files, texts
from hpcforge.node.events import Json, Report
from hpcforge.node.kinds import BLOCK, Need

if TYPE_CHECKING:
    from hpcforge.kinds.sources import Source

FOLDER = "/etc/apt/sources.list.d"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # other names apt passes over
_KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_PATH = re.compile(r"/\S+")


def compare(wanted: Source) -> Json | None:
    """Whether its file is as wanted."""
    return texts.compare(wanted.name, _path(wanted.name), _text(wanted))


def obstacle(wanted: Source, known: Json | None) -> str | None:  # noqa: ARG001
    """A name that apt would pass over, or a key that is none."""
    name, key = wanted.name, wanted.signed_by.strip()
    if not _NAME.fullmatch(name):
        return f"{name!r} cannot be the name of a package source: letters, digits, and _ . -"
    if not key.startswith(_KEY) and not _PATH.fullmatch(key):
        return f"package source {name}: signed_by is neither an absolute path nor a public key in ASCII armour"
    words = (*wanted.uris, *wanted.suites, *wanted.components, *wanted.architectures)
    if any(len(word.split()) != 1 for word in words):
        return f"package source {name}: an address, suite, component or architecture is one word each"
    return texts.obstacle(_path(name))


def put(wanted: Source) -> str | None:
    """Write its file."""
    return files.put_text(_path(wanted.name), _text(wanted))


def own(name: str, change: Source | None, made: set[str]) -> Json | None:  # noqa: ARG001
    """What was in its place."""
    return texts.own(_path(name), change)


def put_back(name: str, known: Json, report: Report) -> str | None:  # noqa: ARG001
    """What was in its place before us."""
    return texts.put_back(_path(name), known)


def room(wanted: Source) -> list[Need]:
    """Its file, and what apt will know of what is there."""
    return [Need(_path(wanted.name), len(_text(wanted)) + BLOCK, 1)]


def _path(name: str) -> str:
    return f"{FOLDER}/{name}.sources"


def _text(wanted: Source) -> str:
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
