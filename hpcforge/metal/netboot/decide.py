"""The answer to a machine that boots from the network, and the disks that may be written. Pure.

A machine is installed only while a record here asks for it, and once: without a record, as after a loss of the server's
state, it boots its own disk. A disk with data is written only where the record has that disk's serial number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

# requested; got a token; a machine began; finished; two machines began, or it failed
State = Literal["wanted", "offered", "begun", "installed", "failed"]
MIN_DISK_BYTES = 4 * 1000**3  # smaller ones are USB sticks and virtual media of controllers


@dataclass(frozen=True)
class Record:
    """The installation of one node. Times are seconds since 1970."""

    node: str
    state: State
    until_s: float  # end of the request
    image: str  # name of the image
    wipe: tuple[str, ...] = ()  # serial numbers of the disks that may be overwritten; names for disks in `unfinished`
    token_sha256: str | None = None  # of the last offered token
    disks: tuple[str, ...] = ()  # serial numbers, else names, of the disks that are or were written
    host_keys: tuple[str, ...] = ()
    why: str = ""  # reason of a failure
    mac: str = ""  # MAC address of the requested machine: another machine with this name is not installed
    console: tuple[str, ...] = ()  # the last lines of a failed installer
    unfinished: tuple[str, ...] = ()  # disks that an earlier try on this machine began to write, as in `disks`


@dataclass(frozen=True)
class TargetDisk:
    """A disk as the installer sees it."""

    name: str  # "sda"
    serial: str  # "": no serial number
    bytes: int
    blank: bool  # no partition table, no file system, no RAID or LVM signature
    marker: str = ""  # SHA-256 of the token of an earlier installation, from behind the partition table
    wwn: str = ""  # its World Wide Name, equal on every path; "": none

    @property
    def label(self) -> str:
        """Return its serial number, else its name."""
        return self.serial or self.name


@dataclass(frozen=True)
class Need:
    """The disks that the system of a node needs."""

    drives: int = 1  # several disks are mirrors of each other
    bytes: int = MIN_DISK_BYTES  # size of each disk


@dataclass(frozen=True)
class Choice:
    """The disks to write, or why there are none."""

    disks: tuple[TargetDisk, ...] = ()
    why: str = ""


def renewed(new: Record, old: Record | None) -> Record:
    """Return a new record of a node, with the disks that earlier tries of the same machine left half written."""
    if old is None or old.mac != new.mac or old.state == "installed":
        return new
    return replace(new, unfinished=old.disks or old.unfinished)


def boots(record: Record | None, now_s: float) -> Literal["disk", "install"]:
    """Return the boot source of a machine with this record."""
    if record is not None and record.state in ("wanted", "offered") and now_s < record.until_s:
        return "install"
    return "disk"


def offered(record: Record, token_sha256: str) -> Record:
    """Return the record after a token was offered; only the newest one counts."""
    return replace(record, state="offered", token_sha256=token_sha256)


def claimed(record: Record | None, token_sha256: str, now_s: float, image: str) -> Record | None:
    """Return the record after a machine showed a token; None: it is invalid or expired, or another image is served.

    A token that is shown a second time may have been read by another machine: the installation has failed.
    """
    if record is None or record.token_sha256 != token_sha256:
        return None
    if record.state == "offered" and (now_s >= record.until_s or record.image != image):
        return None
    if record.state == "offered":
        return replace(record, state="begun")
    if record.state == "begun":
        return failed(record, "its token was used twice: another machine may have read it")
    return None


def failed(record: Record, reason: str, console: Sequence[str] = ()) -> Record:
    """Return the record of a failed installation: its machine boots its disk until a new installation is requested."""
    return replace(record, state="failed", why=reason, host_keys=(), console=tuple(console))


def restarted(record: Record) -> Record | None:
    """Return the record after a request for a boot script; None: it stays. An unfinished installation has failed."""
    if record.state != "begun":
        return None
    return failed(record, "it started again before its installation ended: power was lost, or it was reset")


def choose(record: Record, disks: Sequence[TargetDisk], need: Need = Need()) -> Choice:
    """Choose the disks to write: the named ones, else the smallest blank ones, of one size if they are several."""
    large = [disk for disk in disks if disk.bytes >= max(need.bytes, MIN_DISK_BYTES)]
    if len(large) < need.drives:
        size = f"of {-(-max(need.bytes, MIN_DISK_BYTES) // 1000**3)} GB or more"
        return Choice(
            why=f"it has no disk {size}" if not large else f"it has {len(large)} of {need.drives} disks {size}"
        )
    requested = [disk for disk in large if _is_requested(disk, record)]
    earlier = [disk for disk in disks if disk.marker and disk not in requested]
    if earlier:  # a boot loader locates the file system by its label, which both disks would have
        return Choice(why=f"an earlier installation is on {listed(earlier)}: name that disk with --wipe, or erase it")
    for label in record.wipe:
        if (count := sum(disk.label == label for disk in requested)) != 1:
            if label in {disk.name for disk in large if not disk.serial}:
                return Choice(why=f"{label} has no serial number, and no earlier try began to write it: erase it")
            have = ", ".join(disk.label for disk in large)
            return Choice(why=f"{count} disks have the serial number {label}; it has {have}")
    if len(requested) > need.drives:
        return Choice(why=f"--wipe names {len(requested)} disks, and its system takes {need.drives}")
    chosen = _filled(requested, [disk for disk in large if disk.blank and disk not in requested], need.drives)
    if len(chosen) < need.drives:
        reason = "every disk has data" if need.drives == 1 else f"it has no {need.drives} blank disks of one size"
        return Choice(why=f"{reason}: {listed(large)}")
    if need.drives > 1 and (reason := _shared_identity(chosen, disks)):
        return Choice(why=reason)
    written = [disk.name for disk in chosen if disk.marker and disk.marker == record.token_sha256]
    if written:
        return Choice(why=f"{', '.join(written)} was installed with this token already")
    return Choice(chosen)


def _is_requested(disk: TargetDisk, record: Record) -> bool:
    """Return whether its data may go. A name may be another disk's at the next boot, so it needs an unfinished disk."""
    return disk.label in record.wipe and (bool(disk.serial) or disk.name in record.unfinished)


def _shared_identity(chosen: Sequence[TargetDisk], disks: Sequence[TargetDisk]) -> str:
    """Return why these may be no different disks: one that has two paths would be mirrored with itself."""
    for disk in chosen:
        if not disk.serial:
            return f"{disk.name} has no serial number, which mirrors need: two paths to one disk look like two disks"
        same = [
            candidate
            for candidate in disks
            if candidate.serial == disk.serial or (disk.wwn and candidate.wwn == disk.wwn)
        ]
        if len(same) > 1:
            return f"{len(same)} disks have the serial number {disk.serial} or its WWN: {listed(same)}"
    return ""


def _filled(requested: Sequence[TargetDisk], blank: Sequence[TargetDisk], drives: int) -> tuple[TargetDisk, ...]:
    """Return the named disks, filled up to `drives` with blank ones of one size where there are enough."""
    missing = drives - len(requested)
    for size in sorted({disk.bytes for disk in requested or blank}):
        of_size = sorted((disk for disk in blank if disk.bytes == size), key=lambda disk: disk.name)
        if len(of_size) >= missing:
            return (*requested, *of_size[:missing])
    return tuple(requested)


def listed(disks: Sequence[TargetDisk]) -> str:
    """Their names and serial numbers."""
    return ", ".join(f"{disk.name} (serial number {disk.serial or 'none'})" for disk in disks)
