"""Files and directories: compared without side effects, written whole or not at all.

Paths are walked one component at a time with open directory descriptors. A symbolic link on the way is followed only
when root made it, and a directory that everybody may write to (without the sticky bit) is refused, so nobody but root
can make this program read or write somewhere else.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hpcforge.node import commands, names
from hpcforge.node.events import Json, NodeError, readable

TEXT_LIMIT = 256 * 1024  # bytes of old content that go into an answer
READ_LIMIT = 4 * 2**20  # bytes of a file that was asked for: the roster of 10,000 nodes; an answer may have 8 MiB
_CHUNK = 1024 * 1024
_LINKS = 40  # as many as the kernel follows
_VERIFY_S = 60


class UnsafeError(NodeError):
    """A path that somebody other than root could redirect."""


class Rights(NamedTuple):
    """Who may do what with a file."""

    uid: int
    gid: int
    mode: int


class Entry(NamedTuple):
    """What is at a path. `kind`: file, directory, symlink or other; digest and data for files only."""

    kind: str
    rights: Rights
    links: int
    digest: str | None
    data: bytes | None  # content up to TEXT_LIMIT


def compare_file(wanted: Json) -> Json | None:
    """What is at a file's path, when it is not what is wanted."""
    path = wanted["path"]
    try:
        entry = look(path)
    except UnsafeError:
        return {"path": path, "exists": True, "kind": "unsafe", "digest": None, "text": None, **_NOBODY}
    if entry is None:
        return {"path": path, "exists": False, "kind": None, "digest": None, "text": None, **_NOBODY}
    same_content = entry.kind == "file" and entry.digest == wanted["digest"]
    if same_content and _same_rights(entry, wanted):
        return None
    text = None if wanted.get("secret") else _text(entry.data)
    # One with a second hard link will be replaced, so its content has to be sent: no digest says that it is there.
    digest = entry.digest if entry.links == 1 else None
    return {"path": path, "exists": True, "kind": entry.kind, "digest": digest, "text": text, **rights(entry)}


def compare_directory(wanted: Json) -> Json | None:
    """What is at a directory's path, when it is not what is wanted."""
    path = wanted["path"]
    try:
        entry = look(path)
    except UnsafeError:
        return {"path": path, "exists": True, "kind": "unsafe", **_NOBODY}
    if entry is None:
        return {"path": path, "exists": False, "kind": None, **_NOBODY}
    if entry.kind == "directory" and _same_rights(entry, wanted):
        return None
    return {"path": path, "exists": True, "kind": entry.kind, **rights(entry)}


def put_file(wanted: Json, content: bytes | None = None) -> str | None:
    """Make a file so; what was changed, or None. The old content stays in place until the new one is on disk.

    `content` stands for the one that was sent. Where `verify` (a command) says no to the new content, the file is not
    touched and NodeError has the command's words.
    """
    path, data = wanted["path"], _sent_content(wanted) if content is None else content
    digest = wanted["digest"] if data is None else hashlib.sha256(data).hexdigest()
    wanted_rights = _wanted_rights(wanted)
    parent, name = split(path)
    folder = open_directory(parent, create=True)
    try:
        entry = _look_at(folder, name, path)
        if entry and entry.kind not in ("file", "symlink"):
            raise NodeError(f"{path} is a {_KINDS[entry.kind]}, and a file is wanted there; move it away")
        # A second hard link may be somebody's way to get at another file: such a one is replaced, never chowned.
        if entry and entry.digest == digest and entry.links == 1:
            return _fix_rights(folder, name, entry, wanted_rights)
        if data is None:
            raise NodeError(f"{path} was to get another mode or owner, and its content changed meanwhile; run again")
        replace(folder, name, data, wanted_rights, _verifier(wanted, parent, name))
        return "created" if entry is None else "content" if entry.kind == "file" else "was a symbolic link"
    finally:
        os.close(folder)


def put_directory(wanted: Json) -> str | None:
    """Make a directory so; what was changed, or None. Its content is not touched."""
    path = wanted["path"]
    wanted_rights = _wanted_rights(wanted)
    parent, name = split(path)
    folder = open_directory(parent, create=True)
    try:
        entry = _look_at(folder, name, path)
        if entry and entry.kind != "directory":
            raise NodeError(f"{path} is a {_KINDS[entry.kind]}, and a directory is wanted there; move it away")
        if entry:
            return _fix_rights(folder, name, entry, wanted_rights)
        os.mkdir(name, 0o700, dir_fd=folder)
        entry = _look_at(folder, name, path)
        assert entry is not None
        _fix_rights(folder, name, entry, wanted_rights)
        os.fsync(folder)
        return "created"
    finally:
        os.close(folder)


def replace(folder: int, name: str, data: bytes, rights: Rights, verify: Callable[[], None] | None = None) -> None:
    """Put a file with its final owner and mode under a name in an open directory, atomically and on disk.

    `verify` is called when it is complete under its temporary name; an exception leaves the old file in place.
    """
    temporary = temporary_name(name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
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
    """One per file, so that what a killed run left is taken away by the next one; no `*.conf` includes it."""
    return ".hpcforge-" + hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def look(path: str) -> Entry | None:
    """What is at an absolute path; None where there is nothing. Raises UnsafeError."""
    parent, name = split(path)
    try:
        folder = open_directory(parent)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _look_at(folder, name, path)
    finally:
        os.close(folder)


def read_text(path: str) -> str | None:
    """Text of a file, None where there is none to be read.

    What is not UTF-8 is replaced and what is longer than READ_LIMIT cut off: damage is to be seen, not to look like no
    file.
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


def split(path: str) -> tuple[str, str]:
    """Parent and name of a clean absolute path."""
    parent, _, name = path.rpartition("/")
    if not path.startswith("/") or "\0" in path or not name or {".", ".."} & set(path.split("/")):
        raise NodeError(f"{path!r} is not a plain absolute path (no '..', no trailing '/')")
    return parent or "/", name


def open_directory(path: str, create: bool = False) -> int:
    """A descriptor of a directory that only root could have put there; missing ones are made 0755 on `create`."""
    rest = [part for part in path.split("/") if part and part != "."]
    links = 0
    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        while rest:
            name = rest.pop(0)
            info = _stat_or_make(folder, name, create)
            if stat.S_ISLNK(info.st_mode):
                links += 1
                if info.st_uid not in _trusted() or links > _LINKS:
                    raise UnsafeError(
                        f"{path}: {name} is a symbolic link that {names.user_name(info.st_uid)} made; remove it"
                    )
                target = os.readlink(name, dir_fd=folder)
                rest = [part for part in target.split("/") if part and part != "."] + rest
                name = "/" if target.startswith("/") else "."
            folder, old = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder), folder
            os.close(old)
            mode = os.fstat(folder).st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                raise UnsafeError(
                    f"{path}: everybody may write to {name} (mode {stat.S_IMODE(mode):04o}); chmod o-w it"
                )
        return folder
    except BaseException:
        os.close(folder)
        raise


def open_private(folder: Path) -> int:
    """A descriptor of a directory of our own that only root may enter; it is made where it is missing."""
    parent = open_directory(str(folder.parent), create=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder.name, 0o700, dir_fd=parent)
        fd = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    finally:
        os.close(parent)
    os.fchmod(fd, 0o700)
    return fd


_NOBODY: Json = {"mode": None, "owner": None, "group": None}
_KINDS = {"file": "file", "directory": "directory", "symlink": "symbolic link", "other": "device, socket or pipe"}


def _trusted() -> tuple[int, int]:
    return (0, os.geteuid())


def _stat_or_make(folder: int, name: str, create: bool) -> os.stat_result:
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=folder)
        os.fsync(folder)
    return os.lstat(name, dir_fd=folder)


def _look_at(folder: int, name: str, path: str) -> Entry | None:
    try:
        info = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    kind = "directory" if stat.S_ISDIR(info.st_mode) else "symlink" if stat.S_ISLNK(info.st_mode) else "other"
    if not stat.S_ISREG(info.st_mode):
        return Entry(kind, _rights_of(info), info.st_nlink, None, None)
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(fd, "rb", buffering=0) as file:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise UnsafeError(f"{path} changed into something else while it was read")
        digest, data = _content(file.read)
    return Entry("file", _rights_of(info), info.st_nlink, digest, data)


def _content(read: object) -> tuple[str, bytes | None]:
    assert callable(read)
    digest, first, size = hashlib.sha256(), b"", 0
    while True:
        chunk: bytes = read(_CHUNK)
        if not chunk:
            return digest.hexdigest(), first if size <= TEXT_LIMIT else None
        digest.update(chunk)
        size += len(chunk)
        if size <= TEXT_LIMIT:
            first += chunk


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def rights(entry: Entry) -> Json:
    """Mode and names of owner and group."""
    uid, gid, mode = entry.rights
    return {"mode": f"{mode:04o}", "owner": names.user_name(uid), "group": names.group_name(gid)}


def _rights_of(info: os.stat_result) -> Rights:
    return Rights(info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode))


def _sent_content(wanted: Json) -> bytes | None:
    if wanted.get("content_base64") is None:
        return None
    data = base64.b64decode(wanted["content_base64"], validate=True)
    if wanted.get("digest") not in (None, hashlib.sha256(data).hexdigest()):
        raise NodeError(f"{wanted['path']}: the content that came is not the one that was planned (digest differs)")
    return data


def _verifier(wanted: Json, parent: str, name: str) -> Callable[[], None] | None:
    argv = [word.replace("{file}", f"{parent}/{temporary_name(name)}") for word in wanted.get("verify") or ()]
    if not argv:
        return None

    def verify() -> None:
        outcome = commands.run(argv, _VERIFY_S, merge=True)
        if outcome.rc != 0:
            said = "" if wanted.get("secret") else readable(outcome.stdout, 500)
            why = said or (f"no answer within {_VERIFY_S} s" if outcome.timed_out else f"exit status {outcome.rc}")
            command = " ".join(wanted["verify"])
            raise NodeError(f"{wanted['path']} stays as it was, for `{command}` says no to the new content: {why}")

    return verify


def _wanted_rights(wanted: Json) -> Rights:
    return Rights(names.user_id(wanted["owner"]), names.group_id(wanted["group"]), int(wanted["mode"], 8))


def _same_rights(entry: Entry, wanted: Json) -> bool:
    try:
        return entry.rights == _wanted_rights(wanted)
    except NodeError:
        return False  # the owner does not exist yet


def _fix_rights(folder: int, name: str, entry: Entry, rights: Rights) -> str | None:
    old = entry.rights
    if old == rights:
        return None
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        os.fchown(fd, rights.uid, rights.gid)
        os.fchmod(fd, rights.mode)
        os.fsync(fd)
    finally:
        os.close(fd)
    changes = (
        ("mode", f"{old.mode:04o}", f"{rights.mode:04o}"),
        ("owner", names.user_name(old.uid), names.user_name(rights.uid)),
        ("group", names.group_name(old.gid), names.group_name(rights.gid)),
    )
    return ", ".join(f"{what} {before} -> {after}" for what, before, after in changes if before != after)
