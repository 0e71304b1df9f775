"""Free space on the node's disks, checked before any change: bytes, inodes, and whether they are writable."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpcforge.kinds import TABLE
from hpcforge.node import commands, receipt
from hpcforge.node.events import NodeError
from hpcforge.node.kinds import SpaceNeed, handler, resources

if TYPE_CHECKING:
    from hpcforge.node.requests import WorkRequest

_OWN_BYTES = 128 * 1024  # for receipt and lock, each of them twice while it is replaced
_PLENTY_BYTES, _PLENTY_INODES = 10 * 1024**3, 200_000  # with more than this, apt is not asked first what it needs
_ARCHIVES = "/var/cache/apt/archives"
_PACKAGE_INODES = 100  # files of an average Debian package
_APT_S = 120
_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = r"([\d.,]+) (B|kB|MB|GB)"
_DOWNLOAD = re.compile(rf"^Need to get {_SIZE}(?:/\S+ \w+)? of archives", re.MULTILINE)
_INSTALLED = re.compile(rf"^After this operation, {_SIZE} of additional disk space", re.MULTILINE)


def check(work: Sequence[WorkRequest]) -> None:
    """Raise NodeError when what these roles change does not fit, or cannot be written at all."""
    needs = [SpaceNeed(str(receipt.FOLDER), _OWN_BYTES, 4)]
    for role in work:
        for kind in TABLE:
            for item in resources(role, kind):
                needs += handler(kind.name).room(item)
        needs += [SpaceNeed("/usr", 0, 1), SpaceNeed("/var/lib/dpkg", 0, 1)] if role.get("packages") else []
    refuse(needs)


def check_packages(names: Sequence[str]) -> None:
    """Raise NodeError when these packages and what they need do not fit; where there is plenty of room, no question."""
    if all(_plenty(_existing(place)) for place in ("/usr", _ARCHIVES)):
        return
    options = ["-q", "-o", "Debug::NoLocking=1", "--assume-no", "--download-only", "--no-install-recommends"]
    outcome = commands.run(["apt-get", *options, "install", "--", *names], _APT_S, merge=True)
    download, installed = sizes(outcome.whole("apt-get install"))
    new = len(names) * _PACKAGE_INODES
    refuse([SpaceNeed(_ARCHIVES, download, len(names)), SpaceNeed("/usr", installed, new)])


def sizes(text: str) -> tuple[int, int]:
    """Bytes to download and to install, out of what apt-get says before it asks; 0 where it says nothing."""
    found = (pattern.search(text) for pattern in (_DOWNLOAD, _INSTALLED))
    download, installed = (
        int(float(match.group(1).replace(",", "")) * _SIZES[match.group(2)]) if match else 0 for match in found
    )
    return download, installed


def refuse(needs: Sequence[SpaceNeed]) -> None:
    """Raise NodeError for the first file system that all the needs on it are too much for."""
    by_disk: dict[int, list[SpaceNeed]] = {}
    for need in needs:
        place = _existing(need.path)
        try:
            device = os.stat(place).st_dev  # noqa: PTH116
        except OSError:
            continue  # somebody's file system, where not even root may look: writing there says so
        by_disk.setdefault(device, []).append(need._replace(path=place))
    for on_disk in by_disk.values():
        error = _short(on_disk)
        if error:
            raise NodeError(error)


def _short(needs: Sequence[SpaceNeed]) -> str | None:
    path = max(needs, key=lambda need: need.size).path
    disk = os.statvfs(path)
    if disk.f_flag & os.ST_RDONLY:
        return (
            f"the file system of {path} is read-only, and nothing was changed: `dmesg` may say why; "
            "`mount -o remount,rw` it, then apply again"
        )
    size, free = sum(need.size for need in needs), disk.f_bfree * disk.f_frsize
    if size > free:
        return f"the file system of {path} is full, and nothing was changed: {_mib(size)} needed, {_mib(free)} free"
    inodes = sum(need.inodes for need in needs)
    if disk.f_files and inodes > disk.f_ffree:
        return (
            f"the file system of {path} has too few inodes, and nothing was changed: {inodes} needed, "
            f"{disk.f_ffree} free; `df -i` shows it, many small files are the usual cause"
        )
    return None


def _mib(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB"


def _plenty(path: str) -> bool:
    disk = os.statvfs(path)
    return disk.f_bfree * disk.f_frsize > _PLENTY_BYTES and (not disk.f_files or disk.f_ffree > _PLENTY_INODES)


def _existing(path: str) -> str:
    while not os.path.lexists(path) or os.path.islink(path):  # noqa: PTH114
        path = path.rpartition("/")[0] or "/"
    return path
