"""Which commit a blueprint is of, as git says. Without git, or outside a repository, there is none to speak of."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class Commit:
    """`dirty`: a file that was asked about is not in it as it is on disk."""

    id: str
    dirty: bool


def commit_of(*files: Path) -> Commit | None:
    """The commit that is checked out where the first file lies; None where that cannot be said."""
    folder = files[0].resolve().parent
    head = _git(folder, "rev-parse", "--verify", "HEAD^{commit}")
    if head is None or head.returncode != 0:
        return None
    names = [str(file.resolve()) for file in files]
    kept = _git(folder, "ls-files", "--error-unmatch", "--", *names)
    changed = _git(folder, "status", "--porcelain", "--", *names)
    clean = kept is not None and kept.returncode == 0 and changed is not None and changed.stdout == ""
    return Commit(head.stdout.strip(), not clean)


def descends(blueprint: Path, ancestor: str) -> bool | None:
    """Whether what is checked out contains that commit; None if git does not know it, or there is no git."""
    end = _git(blueprint.resolve().parent, "merge-base", "--is-ancestor", ancestor, "HEAD")
    return {0: True, 1: False}.get(end.returncode) if end is not None else None


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str] | None:
    """A repository's own settings can name programs to run: none of them is needed here, so none may."""
    quiet = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C"}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        return subprocess.run(
            ["git", *quiet, "-C", str(folder), *words],
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
