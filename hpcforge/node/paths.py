"""Safe opening of paths: one component at a time, with open directory descriptors.

A symbolic link is followed only if root made it, in a directory that only root can write to, like all its parents:
elsewhere a user with write access could move a link of root's. A directory that all users can write to (without the
sticky bit) is refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from hpcforge.node import user_ids
from hpcforge.node.events import NodeError

_NOT_FOR_ROOT = (errno.EACCES, errno.ENOTCONN, errno.ESTALE)  # a user's FUSE mount, NFS with root squashing
_LINKS = 40  # the kernel's limit


class UnsafeError(NodeError):
    """A path that a user other than root could redirect."""


def split(path: str) -> tuple[str, str]:
    """Return parent and name of a clean absolute path."""
    parent, _, name = path.rpartition("/")
    if not path.startswith("/") or "\0" in path or not name or {".", ".."} & set(path.split("/")):
        raise NodeError(f"{path!r} is not a plain absolute path (no '..', no trailing '/')")
    return parent or "/", name


def open_directory(path: str, create: bool = False) -> int:
    """Return a descriptor of a directory that only root or its owner could have created.

    With `create` missing directories are made with mode 0755; their owner is that of their parent.
    """
    rest = [part for part in path.split("/") if part and part != "."]
    links = 0
    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        trusted = True  # only root can move a component of this path
        while rest:
            name = rest.pop(0)
            info = _stat_or_make(folder, name, create)
            if stat.S_ISLNK(info.st_mode):
                links += 1
                _refuse_link(path, name, info, trusted and is_roots(folder) and links <= _LINKS)
                target = os.readlink(name, dir_fd=folder)
                rest = [part for part in target.split("/") if part and part != "."] + rest
                name = "/" if target.startswith("/") else "."
            folder, old = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder), folder
            trusted &= is_roots(old) or _stays(old, folder)
            os.close(old)
            mode = os.fstat(folder).st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                raise UnsafeError(
                    f"{path}: {name} is writable by all users (mode {stat.S_IMODE(mode):04o}); chmod o-w it"
                )
        return folder
    except OSError as error:
        os.close(folder)
        raise_unsafe(path, error)
        raise
    except BaseException:
        os.close(folder)
        raise


def raise_unsafe(path: str, error: OSError) -> None:
    """Raise UnsafeError for an error of a user's file system, unlike one of the disk."""
    if error.errno in _NOT_FOR_ROOT:
        raise UnsafeError(f"{path}: even root cannot read it ({error.strerror}): what is mounted there?") from None


def open_private(folder: Path) -> int:
    """Open hpcforge's directory that only root may enter; make it if it is missing."""
    parent = open_directory(str(folder.parent), create=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder.name, 0o700, dir_fd=parent)
        fd = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    finally:
        os.close(parent)
    if (owner := os.fstat(fd).st_uid) not in _trusted():
        os.close(fd)
        raise UnsafeError(f"{folder} belongs to {user_ids.user_name(owner)}, and is hpcforge's: move it away")
    os.fchmod(fd, 0o700)
    return fd


def is_roots(folder: int) -> bool:
    """Return whether only root can change an open directory."""
    info = os.fstat(folder)
    return info.st_uid in _trusted() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _stays(folder: int, child: int) -> bool:
    """Return whether a directory is root's in one like /tmp, where users can move only their own entries."""
    above = os.fstat(folder)
    return above.st_uid in _trusted() and bool(above.st_mode & stat.S_ISVTX) and os.fstat(child).st_uid in _trusted()


def _trusted() -> tuple[int, int]:
    return (0, os.geteuid())


def _refuse_link(path: str, name: str, info: os.stat_result, safe: bool) -> None:
    if info.st_uid not in _trusted():
        raise UnsafeError(f"{path}: {name} is a symbolic link that {user_ids.user_name(info.st_uid)} made; remove it")
    if not safe:
        raise UnsafeError(
            f"{path}: {name} is a symbolic link in a place that others can write to, or it is circular; remove it"
        )


def _stat_or_make(folder: int, name: str, create: bool) -> os.stat_result:
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=folder)
        if not is_roots(folder):
            _give_to_owner_of(folder, name)
        os.fsync(folder)
    return os.lstat(name, dir_fd=folder)


def _give_to_owner_of(folder: int, name: str) -> None:
    """Give a new file in a user's directory to that user, so that no file of root stays there."""
    owner = os.fstat(folder)
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        if not os.listdir(fd):  # noqa: PTH208 - a descriptor; hpcforge's new one is empty
            os.fchown(fd, owner.st_uid, owner.st_gid)
    finally:
        os.close(fd)
