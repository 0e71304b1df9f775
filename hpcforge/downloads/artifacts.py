"""Pinned artifacts, fetched once by the operator host and kept for all clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from hpcforge.downloads.download_store import FetchError, is_there
from hpcforge.downloads.downloads import download
from hpcforge.downloads.wheels import fetch_wheels
from hpcforge.plan.desired import Artifact
from hpcforge.tally import Tallies, silent


def fetch(
    artifacts: Sequence[Artifact], folder: Path, progress: Callable[[str], None], tallies: Tallies = silent
) -> None:
    """Bring every artifact into `folder`, under its SHA-256; those that are there and whole are not fetched again.

    `progress` is called about once a second, `tallies` counts files. Raises `FetchError` for a file that cannot be
    fetched, or is not what is pinned.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        missing = [artifact for artifact in artifacts if not is_there(artifact, folder)]
        wheels = [artifact for artifact in missing if artifact.source == "pip"]
        if not missing:
            return
        with tallies("fetching files", _weights(missing)) as tally:
            for wheel in wheels:
                tally.begin(wheel.name)  # pip fetches all of them in one call
            if wheels:
                fetch_wheels(wheels, folder, progress)
            for wheel in wheels:
                tally.end(wheel.name)
            for artifact in missing:
                if artifact.source != "pip":
                    with tally.part(artifact.name):
                        download(artifact, folder, progress)
    except OSError as error:
        raise FetchError(
            f"{folder}: {error.strerror or error}", "free some space, or set XDG_CACHE_HOME to another folder"
        ) from error


def _weights(artifacts: Sequence[Artifact]) -> dict[str, float]:
    """Return the size of each file; where one has none, all count the same."""
    sizes = {artifact.name: float(artifact.size_bytes or 0) for artifact in artifacts}
    return sizes if all(sizes.values()) else dict.fromkeys(sizes, 1.0)
