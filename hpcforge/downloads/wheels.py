"""Artifacts that are wheels, by pip.

pip does the fetching, with the operator's own configuration (index, proxy, find-links), by exact version and SHA-256,
and for the nodes' Python and platform rather than the operator's. Only the operator's constraints are left out:
they cap what this host installs, and pip refuses a pin above the cap.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from hpcforge.downloads.download_store import FetchError, accept
from hpcforge.plan.desired import Artifact

# Builds for CPUs are called 2.13.0+cpu and are on no general index.
_VENDOR_INDEX = "https://download.pytorch.org/whl/cpu"
_ERROR_LINES = 6
_LIMIT_S = 6 * 3600.0
_LIMIT_BYTES = 256 * 10**9  # of all wheels of one call


class _Name(NamedTuple):
    """The parts of a wheel's file name (PEP 427), its compressed tag sets as they are written."""

    distribution: str
    version: str
    pythons: str
    abis: str
    platforms: str


def fetch_wheels(wheels: Sequence[Artifact], folder: Path, progress: Callable[[str], None]) -> None:
    """Bring wheels into `folder`, under their SHA-256.

    Raises:
        FetchError: pip could not get one, or what it got is not what is pinned.
    """
    # Inside, so that moving to the final name is a rename.
    with tempfile.TemporaryDirectory(prefix=".arriving-", dir=folder) as arriving:
        _download(wheels, Path(arriving), progress)
        for wheel in wheels:
            accept(wheel, Path(arriving) / "wheels" / _file(wheel), folder)


def _file(wheel: Artifact) -> str:
    return wheel.name.rpartition("/")[2]


def _download(wheels: Sequence[Artifact], folder: Path, progress: Callable[[str], None]) -> None:
    names = [_parse(_file(wheel)) for wheel in wheels]
    requirements = folder / "requirements.txt"
    pins = zip(names, wheels, strict=True)
    requirements.write_text(
        "".join(f"{name.distribution}=={name.version} --hash=sha256:{wheel.sha256}\n" for name, wheel in pins)
    )
    # -P: a pip.py that lies where the operator happens to be is not pip
    command = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "--no-input"]
    command += ["download", "--quiet", "--progress-bar", "off", "--no-deps", "--only-binary", ":all:"]
    command += ["--require-hashes", *_for_nodes(names), "-r", str(requirements), "-d", str(folder / "wheels")]
    first = _run_pip(command, folder, progress)
    if first is None:
        return
    if first.endswith("No module named pip"):  # an environment of uv's
        raise FetchError(f"{sys.executable} has no pip to fetch wheels with", f"{sys.executable} -m ensurepip")
    again = "DO NOT MATCH THE HASHES" not in first  # what is wrong does not get right by asking again
    if again:
        progress(f"not all wheels are where pip looks; trying {_VENDOR_INDEX} too")
    if not again or _run_pip([*command, "--extra-index-url", _VENDOR_INDEX], folder, progress) is not None:
        raise FetchError(
            f"pip could not fetch {', '.join(_file(wheel) for wheel in wheels)}:\n{first}",
            "let pip reach an index that has them (pip config set global.index-url ...), or put the folder that holds "
            "these files into pip's find-links (PIP_FIND_LINKS)",
        )


def _run_pip(command: Sequence[str], folder: Path, progress: Callable[[str], None]) -> str | None:
    """Run pip to its end; None when it succeeded, else the last lines it said."""
    # pip downloads into TMPDIR before it moves: there its progress can be seen, and the space is the caller's.
    # An empty PIP_CONSTRAINT would leave the constraints of pip's own files in force; an empty file replaces them.
    environment = {"PIP_RETRIES": "2", **os.environ, "TMPDIR": str(folder), "PIP_CONSTRAINT": os.devnull}
    log, began = folder / "pip.log", time.monotonic()
    with (
        log.open("w") as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment) as pip,
    ):
        try:
            while True:
                try:
                    rc = pip.wait(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    size = _size(folder)
                    progress(f"fetching wheels: {size / 1e6:.0f} MB so far")
                    if size > _LIMIT_BYTES or time.monotonic() - began > _LIMIT_S:
                        pip.kill()
                        return f"stopped after {size} bytes and {time.monotonic() - began:.0f} s"
        except BaseException:
            pip.kill()
            raise
    lines = log.read_text(errors="replace").strip().splitlines()
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    return None if rc == 0 else "\n".join(errors[-_ERROR_LINES:])


def _parse(file: str) -> _Name:
    parts = file.removesuffix(".whl").split("-")
    if not file.endswith(".whl") or len(parts) not in (5, 6):
        raise FetchError(f"{file!r} is not a wheel's file name", "correct its name")
    return _Name(parts[0], parts[1], *parts[-3:])


def _for_nodes(names: Sequence[_Name]) -> list[str]:
    """pip's options for the Python and platform that the wheels are for; none where they run anywhere."""
    tags = [
        (python, abi, platform)
        for name in names
        for python, abi, platform in product(name.pythons.split("."), name.abis.split("."), name.platforms.split("."))
        if (abi, platform) != ("none", "any")
    ]
    if not tags:
        return []
    versions = {match[1] for python, _, _ in tags if (match := re.fullmatch(r"cp([0-9]+)", python))}
    options = ["--implementation", "cp", "--python-version", max(versions, key=int)] if versions else []
    options += [word for abi in sorted({abi for _, abi, _ in tags}) for word in ("--abi", abi)]
    return options + [word for platform in sorted({tag[2] for tag in tags}) for word in ("--platform", platform)]


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # pip has just moved it
    return total
