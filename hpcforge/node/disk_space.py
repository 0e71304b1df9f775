"""Free space on the node's disks, checked before any change: bytes, inodes, and whether they are writable."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hpcforge.kinds import TABLE
from hpcforge.node import package_manager, receipt
from hpcforge.node.events import NodeError
from hpcforge.node.kinds import SpaceNeed, handler, mounts, resources

if TYPE_CHECKING:
    from hpcforge.node.requests import WorkRequest

_OWN_BYTES = 128 * 1024  # receipt and lock, each twice while it is replaced
_PLENTY_BYTES, _PLENTY_INODES = 10 * 1024**3, 200_000  # with more, package sizes are not checked


class Shortage(NamedTuple):
    """A file system that cannot take the writes below `path`; `commands`, run as root, make it writable."""

    path: str
    state: str
    detail: str
    commands: tuple[str, ...] = ()


def check(work: Sequence[WorkRequest]) -> None:
    """Raise NodeError if the changes of these roles do not fit on a file system, or it is read-only."""
    needs = own_needs()
    for role in work:
        needs += [need for kind in TABLE for item in resources(role, kind) for need in handler(kind.name).room(item)]
        needs += package_manager.of_node().base_needs if role.get("packages") else []
    refuse(needs)


def check_packages(names: Sequence[str]) -> None:
    """Raise NodeError if these packages and their dependencies do not fit."""
    refuse(package_needs(names))


def own_needs() -> list[SpaceNeed]:
    """Return the space for hpcforge's own files on a node."""
    return [SpaceNeed(str(receipt.FOLDER), _OWN_BYTES, 4)]


def package_needs(names: Sequence[str]) -> list[SpaceNeed]:
    """Return the space for packages with their dependencies; nothing, unchecked, if there is plenty of space."""
    manager = package_manager.of_node()
    if not names or all(_plenty(existing(place)) for place in manager.growing):
        return []
    return manager.needs(names)


def refuse(needs: Sequence[SpaceNeed]) -> None:
    """Raise NodeError for the first file system that is too small for the sum of its needs."""
    for path, state, detail, remedies in shortages(needs):
        run = "".join(f"; run there: {command}" for command in remedies)
        raise NodeError(f"the file system of {path} {state}, and nothing was changed: {detail}{run}")


def shortages(needs: Sequence[SpaceNeed]) -> Iterator[Shortage]:
    """Yield each file system that is too small for the sum of its needs."""
    by_disk: dict[tuple[int, bool], list[SpaceNeed]] = {}
    for need in needs:
        place = existing(need.path)
        try:
            device = os.stat(place).st_dev  # noqa: PTH116
            read_only = bool(os.statvfs(place).f_flag & os.ST_RDONLY)  # this mount only: others may be writable
        except OSError:
            continue  # not readable for root, such as a user's FUSE mount: the write will report it
        by_disk.setdefault((device, read_only), []).append(need._replace(path=place))
    for (_, read_only), on_disk in by_disk.items():
        path = max(on_disk, key=lambda need: need.size).path
        shortage = _read_only(path) if read_only else _short(path, on_disk)
        if shortage:
            yield shortage


def _read_only(path: str) -> Shortage:
    point = mounts.mount_of(path)
    line = mounts.line_of_fstab(point.path)
    only_here = "ro" not in point.of_disk.split(",")  # it may be writable at another mount
    remedies = mounts.with_option(point.path, "ro", "rw", bind=only_here)
    source = f"it is mounted so at {point.path}" + (f" by {mounts.FSTAB}:{line.number}" if line else "")
    return Shortage(path, "is read-only", f"{source}; after an error of the disk `dmesg` says why", remedies)


def _short(path: str, needs: Sequence[SpaceNeed]) -> Shortage | None:
    disk = os.statvfs(path)
    size, free = sum(need.size for need in needs), disk.f_bfree * disk.f_frsize
    if size > free:
        shown = f"`du -xh {shlex.quote(mounts.mount_of(path).path)} | sort -h | tail` shows the largest folders"
        return Shortage(path, "is full", f"{_amount(size)} needed, {_amount(free)} free; {shown}")
    inodes = sum(need.inodes for need in needs)
    if disk.f_files and inodes > disk.f_ffree:
        detail = f"{inodes} needed, {disk.f_ffree} free; `df -i` shows it, many small files are the usual cause"
        return Shortage(path, "has too few inodes", detail)
    return None


def _amount(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB" if size >= 1024**2 else f"{size // 1024} KiB"


def _plenty(path: str) -> bool:
    disk = os.statvfs(path)
    return disk.f_bfree * disk.f_frsize > _PLENTY_BYTES and (not disk.f_files or disk.f_ffree > _PLENTY_INODES)


def existing(path: str) -> str:
    """Return a path, or its nearest existing parent that is not a link."""
    while not os.path.lexists(path) or os.path.islink(path):  # noqa: PTH114
        path = path.rpartition("/")[0] or "/"
    return path
