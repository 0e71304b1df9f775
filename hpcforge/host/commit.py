"""The git commit of a blueprint. Without git, or outside a repository, there is none.

The folder may be untrusted, and a repository's settings can name programs. So hpcforge runs no git command that could
start one: none that applies filters, queries a file monitor, shows differences, or fetches missing objects. It computes
digests of files itself and compares them. A bare repository among ordinary files does not count.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hpcforge.blueprint.untrusted_files import OutsideError, files_inside

_TIMEOUT_S = 15.0
_OLDEST = (2, 38)  # the first git with the setting safe.bareRepository
_SETTINGS = ("safe.bareRepository=explicit", "protocol.allow=never", "core.fsmonitor=false", "core.hooksPath=/dev/null")
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",  # the operator's own settings stay: they list trusted folders of other users
    "GIT_ALLOW_PROTOCOL": "none",  # a repository's settings can allow one transport in spite of protocol.allow
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_LARGEST = 1 << 30  # bytes of a compared file
_DIGESTS = {40: "sha1", 64: "sha256"}  # algorithm by the length of an id


@dataclass(frozen=True)
class Commit:
    """A commit. `dirty`: a requested file on disk differs from it."""

    id: str
    dirty: bool


def commit_of(*paths: Path) -> Commit | None:
    """Return the commit checked out in the folder of the first file; None if that is unknown.

    `paths` are files, and folders with everything in them. Files that git changes when it writes them, by line ends or
    a filter, count as different from the commit.
    """
    folder = paths[0].resolve().parent
    head = _git(folder, "rev-parse", "--show-toplevel", "HEAD^{commit}")
    top, _, commit = head.stdout.strip().rpartition("\n") if head is not None and head.returncode == 0 else ("", "", "")
    if not top:
        return None
    try:
        names = [str(path.resolve().relative_to(Path(top).resolve())) for path in paths]
    except ValueError:  # outside of the repository
        return Commit(commit, dirty=True)
    listed = _git(folder, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *([] if "." in names else names))
    blobs = _blobs(listed.stdout) if listed is not None and listed.returncode == 0 else {}
    return Commit(commit, dirty=not _same(Path(top), blobs, paths))


def descends(blueprint: Path, ancestor: str) -> bool | None:
    """Return whether the checked-out commit contains another one; None if git does not know it, or without git."""
    if not re.fullmatch("[0-9a-f]{40,64}", ancestor):
        return None
    end = _git(blueprint.resolve().parent, "merge-base", "--is-ancestor", ancestor, "HEAD")
    return {0: True, 1: False}.get(end.returncode) if end is not None else None


def _blobs(listed: str) -> dict[str, str]:
    """Return the ids of files by path, from `git ls-tree -z`; "" for links and submodules."""
    entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
    return {path: attributes.split()[2] if attributes.startswith("100") else "" for attributes, _, path in entries}


def _same(top: Path, blobs: Mapping[str, str], paths: Iterable[Path]) -> bool:
    """Return whether the files on disk are exactly those in `blobs`."""
    try:
        files = [file for path in paths for file in _files(path.resolve())]
        by_name = {os.path.relpath(file, top.resolve()): file for file in files}
        return by_name.keys() == blobs.keys() and all(
            blobs[name] == _id(by_name[name], blobs[name]) for name in by_name
        )
    except (OSError, OutsideError):
        return False


def _files(path: Path) -> list[Path]:
    return [path / name for name in files_inside(path)] if path.is_dir() else [path]


def _id(file: Path, like: str) -> str | None:
    """Return a file's id as git computes it, without filters; with the digest algorithm of another id."""
    if len(like) not in _DIGESTS or not file.is_file() or file.stat().st_size > _LARGEST:
        return None
    content = file.read_bytes()
    return hashlib.new(_DIGESTS[len(like)], b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str] | None:
    """Return git's output in a folder; None without git, or with a git too old for the settings above."""
    path = os.environ.get("PATH", os.defpath)
    return _run(path, "-C", str(folder), *words) if _version(path) >= _OLDEST else None


@cache
def _version(path: str) -> tuple[int, ...]:
    outcome = _run(path, "--version")
    match = re.match(r"git version ([0-9]{1,4})\.([0-9]{1,4})", outcome.stdout) if outcome is not None else None
    return tuple(map(int, match.groups())) if match else ()


def _run(path: str, *words: str) -> subprocess.CompletedProcess[str] | None:
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    try:
        return subprocess.run(
            ["git", "--no-replace-objects", *settings, *words],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env={"PATH": path, "HOME": os.environ.get("HOME", "/"), **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
