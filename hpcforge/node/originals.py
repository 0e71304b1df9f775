"""What was in a file's place before us: its content kept under its SHA-256, its rights told by name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from hpcforge.node import files, receipt
from hpcforge.node.events import Json, NodeError
from hpcforge.node.receipt import Receipt

FOLDER = receipt.FOLDER / "originals"


def keep(path: str, folder: Path = FOLDER) -> Json | None:
    """What is at a path now, its content safely kept on disk; None where there is nothing.

    Raises NodeError for what is neither a file nor a symbolic link: such a thing is not ours to replace.
    """
    entry = files.look(path)
    if entry is None:
        return None
    if entry.kind == "symlink":
        return {"link": str(Path(path).readlink())}
    if entry.kind != "file" or entry.digest is None:
        raise NodeError(f"{path} is neither a file nor a symbolic link")
    data = entry.data if entry.data is not None else Path(path).read_bytes()
    directory = files.open_private(folder)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.stat(entry.digest, dir_fd=directory)
            return {**files.rights(entry), "kept": entry.digest}
        files.replace(directory, entry.digest, data, files.Rights(os.geteuid(), os.getegid(), 0o600))
    finally:
        os.close(directory)
    return {**files.rights(entry), "kept": entry.digest}


def put_back(path: str, before: Json | None, folder: Path = FOLDER) -> str | None:
    """Make a path what it was before us; what was done ("removed", "restored"), or None where it is so already."""
    found = files.look(path)
    if found is not None and found.kind not in ("file", "symlink"):
        raise NodeError(f"{path} was a file of ours and is now a {found.kind}; it was left alone")
    if before is None:
        if found is None:
            return None
        _unlink(path)
        return "removed"
    if "link" in before:
        if found and found.kind == "symlink" and str(Path(path).readlink()) == before["link"]:
            return None
        _relink(path, before["link"])
        return "restored"
    data = _kept(path, before["kept"], folder)
    return files.put_file({**before, "path": path, "digest": before["kept"]}, data) and "restored"


def tidy(left: Receipt, guarded: Iterable[str] = (), folder: Path = FOLDER) -> None:
    """Delete contents that neither the receipt nor a guard (`guarded`, their digests) tells of any more."""
    before = (file["before"] for entry in left.roles.values() for file in entry["files"].values())
    wanted = {each["kept"] for each in before if isinstance(each, dict) and "kept" in each} | set(guarded)
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.name not in wanted:
                path.unlink()


def _kept(path: str, digest: str, folder: Path) -> bytes:
    try:
        return (folder / digest).read_bytes()
    except OSError as error:
        raise NodeError(
            f"{path}: what was there before is to be put back, and {folder / digest} cannot be read ({error.strerror})"
        ) from None


def _unlink(path: str) -> None:
    parent, name = files.split(path)
    directory = files.open_directory(parent)
    try:
        os.unlink(name, dir_fd=directory)
        os.fsync(directory)
    finally:
        os.close(directory)


def _relink(path: str, target: str) -> None:
    parent, name = files.split(path)
    directory = files.open_directory(parent, create=True)
    try:
        temporary = files.temporary_name(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        os.symlink(target, temporary, dir_fd=directory)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        os.fsync(directory)
    finally:
        os.close(directory)
