"""Pinned artifacts and wheels: the operator host fetches each once, and keeps it for all clusters."""

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

# The operator host keeps files for nodes under their SHA-256: each is complete, and was hashed.


class FetchError(ExpectedError):
    """Artifacts that nodes need could not be fetched; `hint` says what to do."""


def is_there(artifact: Artifact, folder: Path) -> bool:
    """Return whether a folder has the complete artifact; hashes it again, since files can change."""
    return sha256_of(folder / artifact.sha256) == artifact.sha256


def accept(artifact: Artifact, arrived: Path, folder: Path) -> None:
    """Move a fetched file to its SHA-256 on the same file system. Raises `FetchError` if it is not the pinned one."""
    digest = sha256_of(arrived)
    if digest == artifact.sha256:
        arrived.replace(folder / artifact.sha256)
        return
    arrived.unlink(missing_ok=True)
    problem = "it has another name" if digest is None else f"its SHA-256 is {digest}, but {artifact.sha256} is pinned"
    raise FetchError(
        f"{artifact.name} differs from the pinned file: {problem}",
        f"check what {'the index of pip' if artifact.source == 'pip' else artifact.source} serves",
    )


def sha256_of(path: Path) -> str | None:
    """Return the SHA-256 of a file, None if it does not exist."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


# Artifacts that are wheels, by pip.
#
# pip fetches them, with the operator's own configuration (index, proxy, find-links), by exact version and SHA-256, for
# the Python and platform of the nodes, not of the operator host. Only the operator's constraints are ignored: they
# limit versions on this host, and pip refuses a pin above the limit.


# Builds for CPUs have versions such as 2.13.0+cpu, which no general index has.
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
        FetchError: pip could not get a wheel, or got another file than the pinned one.
    """
    # Inside `folder`, so that the move to the final name is a rename.
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
    # -P: do not import a pip.py of the working directory
    command = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "--no-input"]
    command += ["download", "--quiet", "--progress-bar", "off", "--no-deps", "--only-binary", ":all:"]
    command += ["--require-hashes", *_for_nodes(names), "-r", str(requirements), "-d", str(folder / "wheels")]
    first = _run_pip(command, folder, progress)
    if first is None:
        return
    if first.endswith("No module named pip"):  # as in an environment of uv
        raise FetchError(f"{sys.executable} has no pip to fetch wheels with", f"{sys.executable} -m ensurepip")
    retry = "DO NOT MATCH THE HASHES" not in first  # another try would not fix a wrong file
    if retry:
        progress(f"not all wheels are where pip looks; trying {_VENDOR_INDEX} too")
    if not retry or _run_pip([*command, "--extra-index-url", _VENDOR_INDEX], folder, progress) is not None:
        raise FetchError(
            f"pip could not fetch {', '.join(_file(wheel) for wheel in wheels)}:\n{first}",
            "let pip reach an index that has them (pip config set global.index-url ...), or put the folder that holds "
            "these files into pip's find-links (PIP_FIND_LINKS)",
        )


def _run_pip(command: Sequence[str], folder: Path, progress: Callable[[str], None]) -> str | None:
    """Run pip to its end. Returns None on success, else its last lines."""
    # pip downloads into TMPDIR before it moves files: its progress is visible there, and the caller has the space.
    # An empty PIP_CONSTRAINT would keep the constraints of pip's own files; an empty file replaces them.
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
    """Return pip's options for the Python and platform of the wheels; none if the wheels run anywhere."""
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


# Artifacts by their address: a partial file is kept, and the next attempt resumes it.
_SILENCE_S = 20.0  # without a byte, after which the connection counts as lost
_PATIENCE_S, _SLOWEST = 60.0, 1000  # later a lower average, in bytes a second, counts as lost, too
_ATTEMPTS = 4  # each resumes at the end of the one before
_PAUSE_S = 1.0
_LIMIT_BYTES = 256 * 10**9  # of an artifact without a pinned size
_CHUNK = 1 << 20
_REPORT_S = 1.0


class _CutOffError(Exception):
    """The connection ended before the file was complete."""


def download(artifact: Artifact, folder: Path, progress: Callable[[str], None]) -> None:
    """Fetch an artifact into `folder`, through the operator's own network access (proxies of the environment).

    Raises `FetchError` if it cannot be fetched or is not the pinned one, OSError for the folder.
    """
    arriving = folder / f".{artifact.sha256}.arriving"
    busy = f"another hpcforge fetches {artifact.name}: waiting"
    with file_lock(arriving, lambda: progress(busy)) as file:
        if is_there(artifact, folder):  # another hpcforge has brought it meanwhile
            arriving.unlink()
            return
        went_on = file.seek(0, os.SEEK_END) > 0
        _bring(artifact, file, progress)
        if went_on and sha256_of(arriving) != artifact.sha256:
            file.truncate(0)  # the partial file may have been the beginning of another one
            _bring(artifact, file, progress)
        accept(artifact, arriving, folder)


def _bring(artifact: Artifact, file: IO[bytes], progress: Callable[[str], None]) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _resume(artifact, file, progress)
        except HTTPError as error:
            error.close()
            if error.code < http.client.INTERNAL_SERVER_ERROR or attempt == _ATTEMPTS:
                raise _failed(artifact, f"{error.code} {error.reason}") from None
        except _CutOffError as error:
            if attempt == _ATTEMPTS:
                raise _failed(artifact, str(error)) from None
        progress(f"{artifact.name}: the connection was lost; continuing")
        time.sleep(_PAUSE_S)
    return None


def _resume(artifact: Artifact, file: IO[bytes], progress: Callable[[str], None]) -> None:
    """Append to the partial file; begin again if the server cannot resume."""
    received = file.seek(0, os.SEEK_END)
    if received and received == artifact.size_bytes:
        return
    try:
        answer = _ask(artifact.source, received)
    except HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not received:
            raise
        error.close()  # the file is complete already, or another one: only a full download shows it
        answer = _ask(artifact.source, 0)
    with answer:
        if getattr(answer, "status", None) != http.client.PARTIAL_CONTENT:
            file.truncate(0)
            received = 0
        _copy(artifact, answer, file, received, progress)


def _ask(source: str, received: int) -> Any:
    request = urllib.request.Request(source, headers={"Range": f"bytes={received}-"} if received else {})  # noqa: S310 - schemes are checked where roles are read
    try:
        return urllib.request.urlopen(request, timeout=_SILENCE_S)  # noqa: S310
    except HTTPError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise _CutOffError(str(getattr(error, "reason", error))) from None


def _copy(artifact: Artifact, answer: Any, file: IO[bytes], received: int, progress: Callable[[str], None]) -> None:
    length = answer.headers.get("Content-Length")
    total = received + int(length) if length is not None and length.isdigit() else None
    limit = artifact.size_bytes if artifact.size_bytes is not None else _LIMIT_BYTES
    if total is not None and total > limit:
        raise _failed(artifact, f"it has {total} bytes there, the limit is {limit}")
    reported = began = time.monotonic()
    before = received
    while chunk := _read(answer):
        received += len(chunk)
        if (took_s := time.monotonic() - began) > _PATIENCE_S and received - before < _SLOWEST * took_s:
            raise _CutOffError(f"fewer than {_SLOWEST} bytes a second came")
        if received > limit:
            raise _failed(artifact, f"it has more than {limit} bytes there")
        file.write(chunk)
        if time.monotonic() - reported >= _REPORT_S:
            reported = time.monotonic()
            progress(f"fetching {artifact.name}: {received / 1e6:.0f} MB" + (f" of {total / 1e6:.0f}" if total else ""))
    file.flush()
    if total is not None and received < total:
        raise _CutOffError(f"{received} bytes of {total} came")


def _read(answer: Any) -> bytes:
    try:
        return bytes(answer.read1(_CHUNK))  # the bytes so far: `read` waits for a full chunk
    except (OSError, http.client.HTTPException) as error:
        raise _CutOffError(str(error)) from None


def _failed(artifact: Artifact, reason: str) -> FetchError:
    return FetchError(
        f"{artifact.name} could not be fetched from {artifact.source}: {reason}",
        "check that this host can reach it (through https_proxy, if set), and that the role's address is still valid",
    )


def fetch(
    artifacts: Sequence[Artifact], folder: Path, progress: Callable[[str], None], tallies: Tallies = silent
) -> None:
    """Fetch every artifact into `folder`, under its SHA-256, except those that it has complete.

    `progress` is called about once a second, `tallies` counts files. Raises `FetchError` for a file that cannot be
    fetched, or is not the pinned one.
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
    """Return the size of each file; if one has no size, all count the same."""
    sizes = {artifact.name: float(artifact.size_bytes or 0) for artifact in artifacts}
    return sizes if all(sizes.values()) else dict.fromkeys(sizes, 1.0)
