"""Pinned artifacts, fetched once by the operator host and kept for all clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from hpcforge.plan.desired import Artifact
from hpcforge.run.download_store import FetchError, is_there
from hpcforge.run.downloads import download
from hpcforge.run.wheels import fetch_wheels


def fetch(artifacts: Sequence[Artifact], folder: Path, progress: Callable[[str], None]) -> None:
    """Bring every artifact into `folder`, under its SHA-256; those that are there and whole are not fetched again.

    `progress` is called about once a second. Raises `FetchError` for what cannot be had, or is not what is pinned.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        missing = [artifact for artifact in artifacts if not is_there(artifact, folder)]
        wheels = [artifact for artifact in missing if artifact.source == "pip"]
        if wheels:
            fetch_wheels(wheels, folder, progress)
        for artifact in missing:
            if artifact.source != "pip":
                download(artifact, folder, progress)
    except OSError as error:
        raise FetchError(
            f"{folder}: {error.strerror or error}", "free some space, or set XDG_CACHE_HOME to another folder"
        ) from error
