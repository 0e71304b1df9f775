"""Files and directories: compared without side effects, and written atomically.

`hpcforge.node.paths` opens their directories. A file is opened once, without following a link, and read from that
descriptor; before its rights change, its device and inode are compared again. So only root can make this program read
or write another file, or read for ever.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from hpcforge.node import commands, paths, user_ids
from hpcforge.node.events import Json, NodeError, readable
from hpcforge.node.kinds import resource
from hpcforge.node.paths import UnsafeError

if TYPE_CHECKING:
    from hpcforge.kinds.directories import Directory
    from hpcforge.kinds.files import File

TEXT_LIMIT = 256 * 1024  # bytes of old content that go into an answer
SIZE_LIMIT = 16 * 2**20  # bytes of a managed file; larger files are not hpcforge's, and are not read
READ_LIMIT = 4 * 2**20  # bytes of a requested file: the roster of 10,000 nodes fits; an answer may have 8 MiB
_CHUNK = 1024 * 1024
_VERIFY_S = 60


class Rights(NamedTuple):
    """Owner and mode of a file."""

    uid: int
    gid: int
    mode: int


class PathEntry(NamedTuple):
    """The entry at a path. `kind`: file, directory, symlink or other."""

    kind: str
    rights: Rights
    links: int
    identity: tuple[int, int]  # device and inode
    digest: str | None = None  # SHA-256 of a file up to SIZE_LIMIT, or of any size on request
    data: bytes | None = None  # a file's content, up to the requested limit
    target: str | None = None  # target of a symbolic link


def compare_file(file: File) -> Json | None:
    """Return the observed state of a file's path, if it differs."""
    path = file.path
    try:
        entry = look(path)
    except UnsafeError:
        return {"path": path, "exists": True, "kind": "unsafe", "digest": None, "text": None, **_NOBODY}
    if entry is None:
        return {"path": path, "exists": False, "kind": None, "digest": None, "text": None, **_NOBODY}
    same_content = entry.digest is not None and entry.digest == file.digest
    if same_content and same_rights(entry, file):
        return None
    text = None if file.secret else _text(entry.data)
    # A file with a second hard link will be replaced, so its content has to be sent: no digest reports it as present.
    digest = entry.digest if entry.links == 1 else None
    return {"path": path, "exists": True, "kind": entry.kind, "digest": digest, "text": text, **rights(entry)}


def compare_directory(directory: Directory) -> Json | None:
    """Return the observed state of a directory's path, if it differs."""
    path = directory.path
    try:
        entry = look(path)
    except UnsafeError:
        return {"path": path, "exists": True, "kind": "unsafe", **_NOBODY}
    if entry is None:
        return {"path": path, "exists": False, "kind": None, **_NOBODY}
    if entry.kind == "directory" and same_rights(entry, directory):
        return None
    return {"path": path, "exists": True, "kind": entry.kind, **rights(entry)}


def obstacle(path: str, kind: str) -> str | None:
    """Return the obstacle to putting a file or directory (`kind`) at a path, or None."""
    try:
        parent, name = paths.split(path)
        folder = paths.open_directory(parent)
    except FileNotFoundError:
        return None  # missing parents will be made
    except NotADirectoryError as error:
        return f"{error.filename!r}, on the way to {path}, is not a directory; move it away"
    except NodeError as error:
        return str(error)
    try:
        return _conflict(path, look_at(folder, name, path, limit=0), kind)
    except UnsafeError as error:
        return str(error)
    finally:
        os.close(folder)


def put_file(file: File, content: bytes | None) -> str | None:
    """Create or change a file; return the change, or None. The old content stays until the new one is on disk.

    `content` None: change only mode and owner. If `verify` (a command) rejects the new content, the file is unchanged
    and NodeError has the command's message.
    """
    path, data = file.path, content
    if data is not None and len(data) > SIZE_LIMIT:
        raise NodeError(f"{path} would get {len(data)} bytes; a file that hpcforge manages has {SIZE_LIMIT} at most")
    digest = file.digest if data is None else hashlib.sha256(data).hexdigest()
    desired_rights = rights_of(file)
    parent, name = paths.split(path)
    folder = paths.open_directory(parent, create=True)
    try:
        entry = look_at(folder, name, path)
        _refuse(_conflict(path, entry, "file"))
        # A user may have hard-linked another file here: a file with a second link is replaced, never chowned.
        if entry and entry.digest is not None and entry.digest == digest and entry.links == 1:
            return fix_rights(folder, name, entry, desired_rights)
        if data is None:
            raise NodeError(f"the content of {path} changed while hpcforge changed its mode or owner; run again")
        replace(folder, name, data, desired_rights, _verifier(file, parent, name))
        return "created" if entry is None else "content" if entry.kind == "file" else "was a symbolic link"
    finally:
        os.close(folder)


def put_text(path: str, text: str) -> str | None:
    """Write root's file with mode 0644; return the change, or None."""
    rights = {"mode": "0644", "owner": "root", "group": "root"}
    attributes = {"path": path, **rights, "digest": None, "secret": None, "early": False}
    return put_file(resource("files", attributes), text.encode())


def put_directory(directory: Directory) -> str | None:
    """Create or change a directory; return the change, or None. Its content is unchanged."""
    path = directory.path
    desired_rights = rights_of(directory)
    parent, name = paths.split(path)
    folder = paths.open_directory(parent, create=True)
    try:
        entry = look_at(folder, name, path)
        _refuse(_conflict(path, entry, "directory"))
        if entry:
            return fix_rights(folder, name, entry, desired_rights)
        os.mkdir(name, 0o700, dir_fd=folder)
        entry = look_at(folder, name, path)
        assert entry is not None
        fix_rights(folder, name, entry, desired_rights)
        os.fsync(folder)
        return "created"
    finally:
        os.close(folder)


def replace(folder: int, name: str, data: bytes, rights: Rights, verify: Callable[[], None] | None = None) -> None:
    """Write a file with its final owner and mode in an open directory, atomically and synced to disk.

    `verify` is called when the temporary file is complete; an exception leaves the old file in place.
    """
    replace_by(folder, name, lambda fd: write_all(fd, data), rights, verify)


def write_all(fd: int, data: bytes) -> None:
    """Write all data to a descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def replace_by(
    folder: int,
    name: str,
    write: Callable[[int], None],
    rights: Rights,
    verify: Callable[[], None] | None = None,
) -> None:
    """Do the same as `replace`, with `write` filling the descriptor; if that raises, the old file stays, too."""
    temporary = temporary_name(name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        try:
            write(fd)
            os.fchown(fd, rights.uid, rights.gid)
            os.fchmod(fd, rights.mode)  # after the owner: a change of owner drops set-user-id
            os.fsync(fd)
        finally:
            os.close(fd)
        if verify:
            verify()
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def temporary_name(name: str) -> str:
    """Return one name per file: the next run removes a killed run's leftover. No pattern `*.conf` matches it."""
    return ".hpcforge-" + hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def look(path: str, limit: int = TEXT_LIMIT, any_size: bool = False) -> PathEntry | None:
    """Return the entry at an absolute path, with content up to `limit` bytes; None without one.
    UnsafeError.

    `any_size`: with the digest of a file of any size, and without content.
    """
    parent, name = paths.split(path)
    try:
        folder = paths.open_directory(parent)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return look_at(folder, name, path, limit, any_size)
    finally:
        os.close(folder)


def look_at(folder: int, name: str, path: str, limit: int = TEXT_LIMIT, any_size: bool = False) -> PathEntry | None:
    """Return the entry under a name in an open directory; `path` is for messages."""
    try:
        info = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(info.st_mode):
            return _entry("symlink", info)._replace(target=os.readlink(name, dir_fd=folder))
        if not stat.S_ISREG(info.st_mode):
            return _entry("directory" if stat.S_ISDIR(info.st_mode) else "other", info)
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL):
            raise _changed(path) from None
        paths.raise_unsafe(path, error)
        raise
    with os.fdopen(fd, "rb", buffering=0) as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise _changed(path)
        entry = _entry("file", info)
        if any_size:
            return entry._replace(digest=_digest(file, info.st_size))
        if info.st_size > SIZE_LIMIT:
            return entry
        data = _content(file)
    if data is None:
        return entry
    return entry._replace(digest=hashlib.sha256(data).hexdigest(), data=data if len(data) <= limit else None)


def parents(path: str, made: Collection[str]) -> list[str]:
    """Return the parents of a path that are missing or in `made`, the deepest first."""
    above = []
    while path.count("/") > 1:
        path = path.rpartition("/")[0]
        if path in made or not os.path.lexists(path):
            above.append(path)
    return above


def read_text(path: str) -> str | None:
    """Return the text of a file, None if it cannot be read.

    Invalid UTF-8 is replaced and text after READ_LIMIT cut off: a damaged file must not look like a missing one.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(READ_LIMIT).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(fd)


def _conflict(path: str, entry: PathEntry | None, kind: str) -> str | None:
    """Return the reason why an entry cannot become a file or directory (`kind`); a link is replaced by a file."""
    if entry is None or entry.kind == kind or (entry.kind, kind) == ("symlink", "file"):
        return None
    return f"{path} is a {_KINDS[entry.kind]} where a {kind} is expected; move it away"


def _refuse(message: str | None) -> None:
    if message:
        raise NodeError(message)


_NOBODY: Json = {"mode": None, "owner": None, "group": None}
_KINDS = {"file": "file", "directory": "directory", "symlink": "symbolic link", "other": "device, socket or pipe"}


def _entry(kind: str, info: os.stat_result) -> PathEntry:
    rights = Rights(info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode))
    return PathEntry(kind, rights, info.st_nlink, (info.st_dev, info.st_ino))


def _changed(path: str) -> UnsafeError:
    return UnsafeError(f"{path} was replaced while hpcforge read it")


def _content(file: io.RawIOBase) -> bytes | None:
    """Return the content of a file; None above SIZE_LIMIT, also if it grows while it is read."""
    data = bytearray()
    while len(data) <= SIZE_LIMIT:
        chunk = file.read(_CHUNK)
        if not chunk:
            return bytes(data)
        data += chunk
    return None


def _digest(file: io.RawIOBase, size: int) -> str | None:
    """Return the digest of a file of this size; None if it has grown meanwhile."""
    digest = hashlib.sha256()
    while size >= 0:
        chunk = file.read(_CHUNK)
        if not chunk:
            return digest.hexdigest()
        digest.update(chunk)
        size -= len(chunk)
    return None


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def rights(entry: PathEntry) -> Json:
    """Return mode and names of owner and group."""
    uid, gid, mode = entry.rights
    return {"mode": f"{mode:04o}", "owner": user_ids.user_name(uid), "group": user_ids.group_name(gid)}


def _verifier(file: File, parent: str, name: str) -> Callable[[], None] | None:
    argv = [word.replace("{file}", f"{parent}/{temporary_name(name)}") for word in file.verify]
    if not argv:
        return None

    def verify() -> None:
        outcome = commands.run(argv, _VERIFY_S, merge=True)
        if outcome.rc != 0:
            output = "" if file.secret or file.fills else readable(outcome.stdout, 500)
            reason = output or (f"no answer within {_VERIFY_S} s" if outcome.timed_out else f"exit status {outcome.rc}")
            command = " ".join(file.verify)
            raise NodeError(f"{file.path} is unchanged: `{command}` rejects the new content: {reason}")

    return verify


def rights_of(item: File | Directory) -> Rights:
    """Return the desired mode and owner. Raises NodeError for an unknown owner."""
    return Rights(user_ids.user_id(item.owner), user_ids.group_id(item.group), int(item.mode, 8))


def same_rights(entry: PathEntry, item: File | Directory) -> bool:
    """Return whether mode and owner are as desired."""
    try:
        return entry.rights == rights_of(item)
    except NodeError:
        return False  # the owner does not exist yet


def fix_rights(folder: int, name: str, entry: PathEntry, rights: Rights) -> str | None:
    """Set mode and owner. Returns the change, or None. Raises UnsafeError if the file was replaced meanwhile."""
    old = entry.rights
    if old == rights:
        return None
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        info = os.fstat(fd)
        # A file that replaced it meanwhile, or has a second name, may be another one that must keep its owner.
        if (info.st_dev, info.st_ino) != entry.identity or (entry.kind == "file" and info.st_nlink != 1):
            raise _changed(name)
        os.fchown(fd, rights.uid, rights.gid)
        os.fchmod(fd, rights.mode)
        os.fsync(fd)
    finally:
        os.close(fd)
    changes = (
        ("mode", f"{old.mode:04o}", f"{rights.mode:04o}"),
        ("owner", user_ids.user_name(old.uid), user_ids.user_name(rights.uid)),
        ("group", user_ids.group_name(old.gid), user_ids.group_name(rights.gid)),
    )
    return ", ".join(f"{label} {before} -> {after}" for label, before, after in changes if before != after)
