"""Pinned artifacts and wheels, fetched once by the operator host and kept for all clusters."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError

from hpcforge.errors import ExpectedError
from hpcforge.locks import file_lock
from hpcforge.plan.desired import Artifact
from hpcforge.tally import Tallies, silent

# What the operator host fetched for nodes, kept under its SHA-256: what lies there is whole, and was hashed.


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


# Artifacts that are wheels, by pip.
#
# pip does the fetching, with the operator's own configuration (index, proxy, find-links), by exact version and
# SHA-256, and for the nodes' Python and platform rather than the operator's. Only the operator's constraints are left
# out: they cap what this host installs, and pip refuses a pin above the cap.


# Builds for CPUs are called 2.13.0+cpu and are on no general index.
_VENDOR_INDEX = "https://download.pytorch.org/whl/cpu"
_ERROR_LINES = 6
_LIMIT_S = 6 * 3600.0
_WHEELS_LIMIT_BYTES = 256 * 10**9  # of all wheels of one call


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
                    if size > _WHEELS_LIMIT_BYTES or time.monotonic() - began > _LIMIT_S:
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


# Artifacts by their address: what has come of one is kept, and gone on with the next time.
_SILENCE_S = 20.0  # without a byte, after which the connection counts as lost
_PATIENCE_S, _SLOWEST = 60.0, 1000  # from then on fewer bytes a second, on average, count as lost, too
_ATTEMPTS = 4  # each goes on where the one before ended
_PAUSE_S = 1.0
_LIMIT_BYTES = 256 * 10**9  # of one whose size is not pinned
_CHUNK = 1 << 20
_TOLD_S = 1.0


class _CutOffError(Exception):
    """Less came than was to come."""


def download(artifact: Artifact, folder: Path, progress: Callable[[str], None]) -> None:
    """Bring an artifact into `folder`, by the operator's own way to the net (proxies of the environment).

    Raises `FetchError` where it cannot be had or is not what is pinned, OSError for the folder.
    """
    arriving = folder / f".{artifact.sha256}.arriving"
    busy = f"another hpcforge fetches {artifact.name}: waiting for it"
    with file_lock(arriving, lambda: progress(busy)) as file:
        if is_there(artifact, folder):  # another hpcforge has brought it meanwhile
            arriving.unlink()
            return
        went_on = file.seek(0, os.SEEK_END) > 0
        _bring(artifact, file, progress)
        if went_on and sha256_of(arriving) != artifact.sha256:
            file.truncate(0)  # what was there of it may have been the beginning of another file
            _bring(artifact, file, progress)
        accept(artifact, arriving, folder)


def _bring(artifact: Artifact, file: IO[bytes], progress: Callable[[str], None]) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _go_on(artifact, file, progress)
        except HTTPError as error:
            error.close()
            if error.code < http.client.INTERNAL_SERVER_ERROR or attempt == _ATTEMPTS:
                raise _failed(artifact, f"{error.code} {error.reason}") from None
        except _CutOffError as error:
            if attempt == _ATTEMPTS:
                raise _failed(artifact, str(error)) from None
        progress(f"{artifact.name}: the connection was lost; going on")
        time.sleep(_PAUSE_S)
    return None


def _go_on(artifact: Artifact, file: IO[bytes], progress: Callable[[str], None]) -> None:
    """Append to what has come so far; from the beginning where the server cannot go on."""
    had = file.seek(0, os.SEEK_END)
    if had and had == artifact.size_bytes:
        return
    try:
        answer = _ask(artifact.source, had)
    except HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not had:
            raise
        error.close()  # it is whole already, or another one: that is seen once it has come again
        answer = _ask(artifact.source, 0)
    with answer:
        if getattr(answer, "status", None) != http.client.PARTIAL_CONTENT:
            file.truncate(0)
            had = 0
        _copy(artifact, answer, file, had, progress)


def _ask(source: str, had: int) -> Any:
    request = urllib.request.Request(source, headers={"Range": f"bytes={had}-"} if had else {})  # noqa: S310 - schemes are checked where roles are read
    try:
        return urllib.request.urlopen(request, timeout=_SILENCE_S)  # noqa: S310
    except HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise _CutOffError(str(getattr(error, "reason", error))) from None


def _copy(artifact: Artifact, answer: Any, file: IO[bytes], had: int, progress: Callable[[str], None]) -> None:
    length = answer.headers.get("Content-Length")
    whole = had + int(length) if length is not None and length.isdigit() else None
    limit = artifact.size_bytes if artifact.size_bytes is not None else _LIMIT_BYTES
    if whole is not None and whole > limit:
        raise _failed(artifact, f"it has {whole} bytes there, the limit is {limit}")
    told = began = time.monotonic()
    before = had
    while chunk := _read(answer):
        had += len(chunk)
        if (took_s := time.monotonic() - began) > _PATIENCE_S and had - before < _SLOWEST * took_s:
            raise _CutOffError(f"fewer than {_SLOWEST} bytes a second came")
        if had > limit:
            raise _failed(artifact, f"it has more than {limit} bytes there")
        file.write(chunk)
        if time.monotonic() - told >= _TOLD_S:
            told = time.monotonic()
            progress(f"fetching {artifact.name}: {had / 1e6:.0f} MB" + (f" of {whole / 1e6:.0f}" if whole else ""))
    file.flush()
    if whole is not None and had < whole:
        raise _CutOffError(f"{had} bytes of {whole} came")


def _read(answer: Any) -> bytes:
    try:
        return bytes(answer.read1(_CHUNK))  # what has come: `read` waits for all of a chunk
    except (OSError, http.client.HTTPException) as error:
        raise _CutOffError(str(error)) from None


def _failed(artifact: Artifact, why: str) -> FetchError:
    return FetchError(
        f"{artifact.name} could not be fetched from {artifact.source}: {why}",
        "check that this host can reach it (through https_proxy, if set), and that the role's address is still valid",
    )


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
