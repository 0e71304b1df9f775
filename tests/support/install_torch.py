"""Install PyTorch for the tests of smoke_tests/: the build for CPUs that the catalog pins for this Python.

It comes as it comes to nodes: from wherever pip looks, else from the vendor's index, and only with the pinned digest.
What PyTorch needs and is installed already stays as it is, since the lock says its version.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from hpcforge.catalog import load_catalog
from hpcforge.downloads.artifacts import FetchError, fetch
from hpcforge.frameworks import PinnedWheel
from hpcforge.plan.desired import Artifact


def pinned(python: str, arch: str) -> tuple[PinnedWheel, ...]:
    """The wheels of the newest build for CPUs, torch first; none where the catalog pins none for this Python."""
    builds = [one for one in load_catalog().pytorch if (one.device, one.python, one.arch) == ("cpu", python, arch)]
    return builds[0].wheels if builds else ()


def missing(wheels: Sequence[PinnedWheel]) -> list[PinnedWheel]:
    """Those to install: torch unless it has this version, of the others what is not there in any version."""
    return [
        wheel
        for wheel in wheels
        if (present := installed(wheel)) is None or (wheel == wheels[0] and present != pin(wheel)[1])
    ]


def installed(wheel: PinnedWheel) -> str | None:
    """The version of a wheel's project that is installed here."""
    try:
        return version(pin(wheel)[0])
    except PackageNotFoundError:
        return None


def pin(wheel: PinnedWheel) -> tuple[str, str]:
    """Project and version of a wheel, by its file name."""
    project, number, _ = wheel.file.split("-", 2)
    return project, number


def install(wheels: Sequence[PinnedWheel]) -> None:
    """Fetch wheels by their digests, and install these files and nothing else."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        fetch([Artifact(f"wheels/{wheel.file}", "pip", wheel.sha256) for wheel in wheels], folder, lambda _: None)
        files = [(folder / wheel.sha256).rename(folder / wheel.file) for wheel in wheels]
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", *files], check=True)


def main() -> int:
    python, arch = ".".join(platform.python_version_tuple()[:2]), platform.machine()
    wheels = pinned(python, arch)
    if not wheels:
        print(f"no build of PyTorch for CPUs is pinned for Python {python} on {arch}: what needs it is skipped")
    try:
        if to_install := missing(wheels):
            print(f"installing {', '.join(wheel.file for wheel in to_install)}")
            install(to_install)
    except FetchError as error:
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
