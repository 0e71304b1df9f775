"""File systems on a node's own NVMe drives: XFS, on an md array if there are several drives.

hpcforge never destroys data here. It uses only blank drives that no program uses, and exactly the desired number. It
reports any other drive by its name, with the command that a person would have to type. The identifiers of a volume's
file system and array follow from its name, and identify it; the slots of its drives do not.

The receipt has no state of a volume. A file beside the receipt lists the drives of a volume, so that a message can name
a lost one. While a volume is made, a second file marks that: only then an array without a file system is formatted.
"""

from __future__ import annotations

import json
import os
import re
import stat
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcforge.kinds import ARRAYS, spare
from hpcforge.node import commands, files, paths, receipt
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import BLOCK, KeptItem, Known, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.volumes import Volume

SYSTEM, DEVICES = Path("/sys/block"), Path("/dev")
RECORDS = receipt.FOLDER / "volumes"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NVME = re.compile(r"nvme[0-9]{1,5}n[0-9]{1,5}")
_QUOTA = re.compile(r"^#?([0-9]+) +[0-9]+ +[0-9]+ +([0-9]+) ", re.M)  # number, used, soft limit, hard limit in KiB
_MODE = 0o1777
_LOOK_S, _MAKE_S = 60, 1800  # the latter: mkfs trims the drives, which takes minutes on some
_TOLERANCE = 0.02
# In a mount namespace of its own: nothing stays mounted, however this ends.
_BEGIN = 'mount -t xfs -o uquota -- "$1" /mnt && chmod 1777 /mnt && xfs_quota -x -c "$2" /mnt'


class NvmeDrive(NamedTuple):
    """An NVMe drive: the kernel's name for it, which may change, and its serial number."""

    name: str
    serial: str
    size: int  # bytes

    @property
    def words(self) -> str:
        """Return its name and serial number, for a message."""
        return f"{self.name} (serial {self.serial})"


def compare(volume: Volume) -> Json | None:
    """Return its state, if it is missing, or if its limits, rights or drives differ."""
    device = _device(volume)
    if device is None:
        own = _members(volume)
        drives = [] if own else [drive.name for drive in _blank(volume)[0]]
        return {"name": volume.name, "exists": False, "drives": drives, "quota_gib": None}
    mounted = _is_mounted(volume.mount, device)
    limits = _limits(volume.mount) if mounted else {}
    as_wanted = not mounted or (_right_limits(volume, limits) and _mode(volume.mount) == _MODE)
    if as_wanted and not _lost(volume, device) and _recorded(volume) == _made_of(device):
        return None
    return {"name": volume.name, "exists": True, "drives": [], "quota_gib": limits.get(0, 0) >> 20}


def obstacle(volume: Volume, record: Known) -> str | None:  # noqa: ARG001
    """Report a lost drive, or too few empty ones: with the reason against each other drive, and the command to type."""
    if not _NAME.fullmatch(volume.name) or volume.drives < 1:
        return f"volume {volume.name!r}: its name has letters, digits, _ and -, and it needs drives"
    if volume.raid not in ARRAYS or 1 < volume.drives < ARRAYS[volume.raid]:
        levels = ", ".join(f"{level} of {fewest} drives or more" for level, fewest in ARRAYS.items())
        return f"volume {volume.name}: RAID {volume.raid} of {volume.drives} drives is not made; levels are {levels}"
    device = _device(volume)
    lost = _lost(volume, device)
    if lost:
        return lost
    if device is not None or len(_members(volume)) == volume.drives > 1:
        return None
    blank, others = _blank(volume)
    if len(blank) == volume.drives:
        return None
    reasons = "; ".join(others)
    if len(blank) > volume.drives:
        which = ", ".join(drive.name for drive in blank)
        return f"the volume needs {volume.drives} NVMe drives, but more are blank: {which}; hpcforge cannot choose"
    return (
        f"the volume needs {volume.drives} blank NVMe drives, and the node has {len(blank)}"
        f"{f': {reasons}' if reasons else ''}; hpcforge formats only blank drives"
    )


def put(volume: Volume) -> str | None:
    """Make it, or assemble its drives; then set its quotas. NodeError for an obstacle."""
    action, device = "", _device(volume)
    reason = obstacle(volume, None)
    if reason:
        raise NodeError(reason)
    if device is None:
        device, action = _create(volume)
    if _recorded(volume) != _made_of(device):
        _record(volume, device)
        action = action or "recorded its drives"
    if not _is_mounted(volume.mount, device):
        return action or None
    if _mode(volume.mount) != _MODE:
        Path(volume.mount).chmod(_MODE)
        action = action or "open to users"
    if not _right_limits(volume, _limits(volume.mount)):
        _limit(volume)
        action = action or f"quota {volume.quota_gib} GiB"
    return action or None


def own(name: str, change: Volume | None, made: set[str]) -> Json:  # noqa: ARG001
    """Return a record without an earlier state."""
    return {"before": None}


def restore(name: str, record: Known, report: EventReporter) -> str | None:  # noqa: ARG001
    """Do nothing: its files are its users'."""
    return None


def is_there(name: str) -> bool:
    """Return whether the volume was made here."""
    return (RECORDS / name).exists()


def stays(name: str, record: Known) -> KeptItem | None:  # noqa: ARG001
    """Return the volume: its drives and data stay."""
    return ("volume", name, "its drives and their data stay unchanged")


def room(volume: Volume) -> list[SpaceNeed]:
    """Return the space for the list of its drives."""
    return [SpaceNeed(str(RECORDS / volume.name), BLOCK, 2)]


# Present drives and arrays


def _drives() -> list[NvmeDrive]:
    """Return all NVMe drives, in the order of their numbers."""
    names = (path.name for path in SYSTEM.iterdir() if _NVME.fullmatch(path.name))
    return [_drive(name) for name in sorted(names, key=lambda name: [int(part) for part in re.findall("[0-9]+", name)])]


def _drive(name: str) -> NvmeDrive:
    return NvmeDrive(name, _sysfs_value(name, "device/serial") or "unknown", 512 * int(_sysfs_value(name, "size") or 0))


def _sysfs_value(device: str, attribute: str) -> str:
    """Return the kernel's value for a block device; "" without one."""
    try:
        return (SYSTEM / device / attribute).read_text(errors="replace").strip()
    except OSError:
        return ""


def _device(volume: Volume) -> str | None:
    """Return the kernel's name of the device that has the file system; None: there is none."""
    link = DEVICES / "disk" / "by-uuid" / volume.uuid
    return link.resolve().name if link.exists() else None


def _array(volume: Volume) -> str:
    """Return the identifier of its array."""
    return str(uuid.uuid5(uuid.UUID(volume.uuid), "array"))


def _members(volume: Volume) -> list[NvmeDrive]:
    """Return the drives that are part of its array."""
    if volume.drives == 1:
        return []
    array = _array(volume)
    return [drive for drive in _drives() if _is_member(drive.name, array)]


def _is_member(drive: str, array: str) -> bool:
    """Return whether a drive is part of an array; False if it cannot be read."""
    try:
        return any(signature.get("uuid") == array for signature in _signatures(drive))
    except NodeError:
        return False


def _signatures(device: str) -> list[Json]:
    """Return libblkid's signatures of a device: file systems, members of arrays, partition tables and more."""
    output = commands.succeed(["wipefs", "--no-act", "--json", "--", str(DEVICES / device)], _LOOK_S)
    signatures: list[Json] = json.loads(output)["signatures"] if output.strip() else []
    return signatures


def _blank(volume: Volume) -> tuple[list[NvmeDrive], list[str]]:
    """Return the empty drives of the size, and the reason against each of the others."""
    blank, others = [], []
    for drive in _drives():
        reason = _objection(drive, volume)
        if reason:
            others.append(f"{drive.name} {reason}")
        else:
            blank.append(drive)
    return blank, others


def _objection(drive: NvmeDrive, volume: Volume) -> str | None:
    """Return the reason against using a drive."""
    mb = volume.drive_mb
    if mb and abs(drive.size / 1e6 - mb) > _TOLERANCE * mb:
        return f"has {drive.size / 1e9:.1f} GB, and not {mb / 1e3:g}"
    path = DEVICES / drive.name
    parts = sorted(path.name for path in (SYSTEM / drive.name).iterdir() if (path / "partition").exists())
    try:
        signatures = _signatures(drive.name)
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL))  # busy: mounted, swap, part of an array or a volume group
    except NodeError as error:
        return f"cannot be read: {error}"
    except OSError as error:
        holders = _holders(drive.name)
        by = f" by {', '.join(holders)}" if holders else f" ({', '.join(parts)})" if parts else ""
        return f"is in use{by}: {error.strerror}"
    if not signatures and not parts:
        return None
    labels = [
        " ".join(filter(None, (signature["type"], signature.get("label"), signature.get("uuid"))))
        for signature in signatures
    ]
    content = ", ".join([*dict.fromkeys(labels), *(f"partition {part}" for part in parts)])
    wiped = " ".join(str(DEVICES / device) for device in (*parts, drive.name))
    return f"has {content} (to destroy all its data: wipefs --all {wiped})"


def _holders(device: str) -> list[str]:
    """Return the arrays and other devices that contain a drive."""
    return sorted(holder.name for holder in (SYSTEM / device / "holders").iterdir())


def _made_of(device: str) -> list[NvmeDrive]:
    """Return the present drives below a device."""
    below = SYSTEM / device / "slaves"
    names = [member.name for member in below.iterdir()] if below.exists() else []
    return sorted(
        (_drive(name) for name in names or [device] if (SYSTEM / name).exists()), key=lambda drive: drive.serial
    )


def _recorded(volume: Volume) -> list[NvmeDrive]:
    """Return the drives of which it was made."""
    try:
        return [NvmeDrive(**record) for record in json.loads((RECORDS / volume.name).read_text())]
    except (OSError, ValueError, TypeError):  # missing or damaged: the list only names lost drives
        return []


def _lost(volume: Volume, device: str | None) -> str | None:
    """Return the message about lost drives, with the remedy; None if all are present, or none."""
    if volume.drives == 1:
        return None
    own = _members(volume) if device is None else _made_of(device)
    broken = _is_broken(device) or (device and _sysfs_value(device, "md/degraded") not in ("", "0"))
    if not own or (len(own) == volume.drives and not broken):
        return None
    serials = {drive.serial for drive in _drives()}
    absent = [drive.words for drive in _recorded(volume) if drive.serial not in serials]
    lost = ", ".join(absent) or f"{volume.drives - len(own) or 'some'} of its {volume.drives} drives"
    arrays = sorted({holder for drive in own for holder in _holders(drive.name)})
    if volume.drives - len(own) <= spare(volume.raid, volume.drives) and not _is_broken(device):
        array = device or next(iter(arrays), "md/ARRAY")
        start = "" if device else f"start the array without it (mdadm --run /dev/{array}), "
        return (
            f"{lost} is lost; the files are safe: {start}insert another drive, and add it to the array "
            f"(mdadm --manage /dev/{array} --add /dev/DRIVE)"
        )
    remaining = " ".join(str(DEVICES / drive.name) for drive in own)
    stop = "".join(f"mdadm --stop /dev/{array}; " for array in arrays)
    return (
        f"{lost} is lost, with all files; to build a new volume with the other drives and a replacement: umount "
        f"{volume.mount}; {stop}wipefs --all {remaining}"
    )


def _is_broken(device: str | None) -> bool:
    """Return whether an array has lost too many drives to have all files."""
    return device is not None and _sysfs_value(device, "md/array_state") == "broken"


# Creation


def _create(volume: Volume) -> tuple[str, str]:
    """Return the device of its file system, and the actions that made it."""
    own, begun = _members(volume), RECORDS / f"{volume.name}.begun"
    blank = [] if own else _blank(volume)[0]
    name = (own or blank)[0].name
    if blank:
        _write(begun.name, [])
    if volume.drives > 1:
        name = _assembled(volume, own) if own else _new_array(volume, blank)
        _settle()
        if _device(volume) is not None:
            return str(_device(volume)), "put together again"
        if not begun.exists():  # it was complete once: a damaged header may hide files
            drives = " ".join(str(DEVICES / drive.name) for drive in own)
            raise NodeError(
                f"/dev/{name} is the array of volume {volume.name} without a file system: nothing was formatted "
                f"(check with xfs_repair -n /dev/{name}; to destroy all its data: mdadm --stop /dev/{name}; wipefs "
                f"--all {drives})"
            )
    if _signatures(name):
        raise NodeError(
            f"/dev/{name} has {_signatures(name)[0]['type']}, which hpcforge did not create: nothing was formatted"
        )
    # Without --force mkfs itself checks again that the device is blank.
    make = ["mkfs.xfs", "-q", "-m", f"uuid={volume.uuid}", "-L", volume.name[:12], str(DEVICES / name)]
    commands.succeed(make, _MAKE_S)
    _settle()
    begin = ["unshare", "--mount", "sh", "-ec", _BEGIN, "sh", str(DEVICES / name), _default(volume)]
    commands.succeed(begin, _LOOK_S)
    if _device(volume) is None:
        raise NodeError(f"/dev/{name} was formatted, and udev does not show {volume.uuid}: udevadm info /dev/{name}")
    begun.unlink(missing_ok=True)
    return name, f"formatted {', '.join(drive.name for drive in own or blank)}"


def _new_array(volume: Volume, drives: list[NvmeDrive]) -> str:
    """Make an array of empty drives. mdadm checks them, too, and asks if one is not empty: the answer is no."""
    name = f"hpcforge-{volume.name}"
    array = f"/dev/md/{name}"
    words = ["mdadm", "--create", array, f"--level={volume.raid}", f"--raid-devices={volume.drives}", "--metadata=1.2"]
    words += ["--homehost=any", f"--name={name[:27]}", f"--uuid={_array(volume)}"]
    words += ["--bitmap=internal"] if volume.raid else []
    commands.succeed([*words, *(str(DEVICES / drive.name) for drive in drives)], _MAKE_S)
    return Path(array).resolve().name


def _assembled(volume: Volume, drives: list[NvmeDrive]) -> str:
    """Return the array of its own drives, assembled by udev, or else by mdadm now."""
    holders = _holders(drives[0].name)
    if holders:
        return holders[0]
    array = f"/dev/md/hpcforge-{volume.name}"
    words = ["mdadm", "--assemble", array, f"--uuid={_array(volume)}", "--homehost=any"]
    commands.succeed([*words, *(str(DEVICES / drive.name) for drive in drives)], _LOOK_S)
    return Path(array).resolve().name


def _settle() -> None:
    """Wait until udev has seen the new file system."""
    commands.succeed(["udevadm", "settle", "--timeout=60"], 2 * _LOOK_S)


def _record(volume: Volume, device: str) -> None:
    _write(volume.name, _made_of(device))


def _write(name: str, drives: list[NvmeDrive]) -> None:
    folder = paths.open_directory(str(RECORDS), create=True)
    try:
        text = json.dumps([drive._asdict() for drive in drives]).encode()
        files.replace_by(folder, name, lambda fd: files.write_all(fd, text), files.Rights(0, 0, 0o644))
    finally:
        os.close(folder)


# Quotas


def _is_mounted(mount: str, device: str) -> bool:
    """Return whether a device is mounted at a path, by the kernel's list; the path is not accessed."""
    number = _sysfs_value(device, "dev")
    rows = (line.split(b" ") for line in Path("/proc/self/mountinfo").read_bytes().splitlines())
    return any(row[2].decode() == number and row[4] == os.fsencode(mount) for row in rows)


def _mode(mount: str) -> int:
    try:
        return stat.S_IMODE(Path(mount).stat().st_mode)
    except OSError as error:
        raise NodeError(f"{mount}: {error.strerror}") from None


def _limits(mount: str) -> dict[int, int]:
    """Return users' limits, KiB by number; number 0 has the limit of users without their own."""
    output = commands.succeed(["xfs_quota", "-x", "-c", "report -u -n -N -b", mount], _LOOK_S)
    return {int(number): int(hard) for number, hard in _QUOTA.findall(output)}


def _right_limits(volume: Volume, limits: dict[int, int]) -> bool:
    """Return whether every user has the default limit or the same one."""
    limit = volume.quota_gib << 20
    return limits.get(0, 0) == limit and all(hard in (0, limit) for hard in limits.values())


def _default(volume: Volume) -> str:
    return f"limit -u -d bhard={volume.quota_gib}g"


def _limit(volume: Volume) -> None:
    """Set the same limit for all: XFS copies the default to each user with files, and never updates the copy."""
    limit = volume.quota_gib << 20
    others = [number for number, hard in _limits(volume.mount).items() if number and hard not in (0, limit)]
    orders = [_default(volume), *(f"limit -u bhard={volume.quota_gib}g {number}" for number in others)]
    outcome = commands.run(
        ["xfs_quota", "-x", *(w for order in orders for w in ("-c", order)), volume.mount], _LOOK_S, merge=True
    )
    if not _right_limits(volume, _limits(volume.mount)):  # xfs_quota exits with 0 even after an error
        raise NodeError(f"xfs_quota: the quota of {volume.mount} is not as desired: {outcome.stdout.strip()[:300]}")
