"""The earlier content of hpcforge's files: kept under its SHA-256, with owner and group by name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from hpcforge.kinds import KINDS
from hpcforge.node import files, paths, receipt, user_ids
from hpcforge.node.events import Json, NodeError
from hpcforge.node.kinds import resource
from hpcforge.node.paths import UnsafeError
from hpcforge.node.receipt import Receipt

FOLDER = receipt.FOLDER / "originals"


class TooLargeError(NodeError):
    """A file is too large for a backup, so hpcforge must not replace it."""


def keep(path: str, folder: Path = FOLDER) -> Json | None:
    """Return the entry at a path, its content safely kept on disk; None without one.

    Raise NodeError for anything but a file or a symbolic link: hpcforge must not replace it.
    """
    entry = files.look(path, files.SIZE_LIMIT)
    if entry is None:
        return None
    rights = files.rights(entry)
    if entry.kind == "symlink":
        return {"link": entry.target, "owner": rights["owner"], "group": rights["group"]}
    if entry.kind != "file":
        raise NodeError(f"{path} is neither a file nor a symbolic link")
    if entry.digest is None or entry.data is None:
        raise _too_large(path)
    directory = paths.open_private(folder)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.stat(entry.digest, dir_fd=directory)
            return {**rights, "kept": entry.digest}
        files.replace(directory, entry.digest, entry.data, files.Rights(os.geteuid(), os.getegid(), 0o600))
    finally:
        os.close(directory)
    return {**rights, "kept": entry.digest}


def obstacle(path: str) -> str | None:
    """Return the reason why the entry at a path cannot be backed up before it is replaced for the first time."""
    try:
        entry = files.look(path, limit=0)
    except NodeError as error:
        return str(error)
    return str(_too_large(path)) if entry and entry.kind == "file" and entry.digest is None else None


def restore(path: str, before: Json | None, folder: Path = FOLDER) -> str | None:
    """Restore the earlier entry at a path; return "removed" or "restored", or None if nothing was to do.

    Raises UnsafeError if the path is in a user's directory and the user prevents it.
    """
    parent, name = paths.split(path)
    try:
        directory = paths.open_directory(parent, create=before is not None)
    except (FileNotFoundError, NotADirectoryError):
        if before is None:
            return None
        raise
    try:
        roots = paths.is_roots(directory)
        try:
            return _restore(directory, name, path, before, folder)
        except OSError as error:
            if roots:
                raise
            raise UnsafeError(f"{path}: {error.strerror}") from None
    finally:
        os.close(directory)


def _too_large(path: str) -> TooLargeError:
    return TooLargeError(f"{path} is larger than {files.SIZE_LIMIT} bytes, too large for a backup; move it away")


def _restore(directory: int, name: str, path: str, before: Json | None, folder: Path) -> str | None:
    entry = files.look_at(directory, name, path)
    if entry is not None and entry.kind not in ("file", "symlink"):
        kind = NodeError if paths.is_roots(directory) else UnsafeError
        raise kind(f"{path} was hpcforge's file and is now a {entry.kind}; not touched")
    if before is None:
        if entry is None:
            return None
        os.unlink(name, dir_fd=directory)
        os.fsync(directory)
        return "removed"
    if "link" in before:
        if entry and entry.target == before["link"]:
            return None
        _relink(directory, name, before)
        return "restored"
    mode = int(before["mode"], 8)
    if not paths.is_roots(directory):
        mode &= 0o1777  # users can write here: the restored file must not get set-user-id or set-group-id
    rights = {"mode": f"{mode:04o}", "owner": before["owner"], "group": before["group"]}
    attributes = {"path": path, **rights, "digest": before["kept"], "secret": None, "early": False}
    return files.put_file(resource("files", attributes), _read_backup(path, before["kept"], folder)) and "restored"


def tidy(remaining: Receipt, guarded: Iterable[str] = (), folder: Path = FOLDER) -> None:
    """Delete backups that neither the receipt nor a guard needs (`guarded`: digests of the guards' backups)."""
    records = (record for entry in remaining.roles.values() for kind in KINDS for record in entry[kind].values())
    before = (record.get("before") for record in records if isinstance(record, dict))
    digests = {state["kept"] for state in before if isinstance(state, dict) and "kept" in state} | set(guarded)
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.name not in digests:
                path.unlink()


def _read_backup(path: str, digest: str, folder: Path) -> bytes:
    try:
        return (folder / digest).read_bytes()
    except OSError as error:
        raise NodeError(
            f"{path}: the earlier content cannot be restored: {folder / digest} cannot be read ({error.strerror})"
        ) from None


def _relink(directory: int, name: str, before: Json) -> None:
    """Restore a link with its owner: root's link in another user's directory could be moved and would be trusted."""
    temporary = files.temporary_name(name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=directory)
    uid, gid = _owner(directory, before)
    os.symlink(before["link"], temporary, dir_fd=directory)
    os.chown(temporary, uid, gid, dir_fd=directory, follow_symlinks=False)
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)


def _owner(directory: int, before: Json) -> tuple[int, int]:
    """Return the owner of a link: as recorded; if that is missing or unknown, the directory's."""
    try:
        return user_ids.user_id(before["owner"]), user_ids.group_id(before["group"])
    except (KeyError, NodeError):
        info = os.fstat(directory)
        return info.st_uid, info.st_gid
