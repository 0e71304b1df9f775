"""What the operator host fetched for nodes, kept under its SHA-256: what lies there is whole, and was hashed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hpcforge.errors import ExpectedError
from hpcforge.plan.desired import Artifact


class FetchError(ExpectedError):
    """Artifacts that nodes need could not be had; `hint` says what to do."""


def is_there(artifact: Artifact, folder: Path) -> bool:
    """Whether a folder has it complete; hashes it again, since files can change."""
    return sha256_of(folder / artifact.sha256) == artifact.sha256


def accept(artifact: Artifact, arrived: Path, folder: Path) -> None:
    """Put what arrived on the same file system under its SHA-256. Raises `FetchError` if it is not what is pinned."""
    found = sha256_of(arrived)
    if found == artifact.sha256:
        arrived.replace(folder / artifact.sha256)
        return
    arrived.unlink(missing_ok=True)
    said = "it has another name" if found is None else f"its SHA-256 is {found}, but {artifact.sha256} is pinned"
    raise FetchError(
        f"{artifact.name} differs from the pinned file: {said}",
        f"check what {'the index of pip' if artifact.source == 'pip' else artifact.source} serves",
    )


def sha256_of(path: Path) -> str | None:
    """SHA-256 of a file, None where there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
