"""File systems on a node's own NVMe drives: XFS, on an array of md's where they are several.

Data is never lost by this. Drives are only taken where nothing at all is found on them and nobody uses them, and just
as many as are wanted; what else there is, is told with its name and with what a person would have to type. A volume is
known by the identifiers of its file system and its array, which follow from its name, never by where its drives are.

The receipt has nothing of it. Beside the receipt lies which drives a volume was made of, by which a lost one is named,
and, while one is made, that it was begun: an array without a file system is formatted then, and never else.
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
_LOOK_S, _MAKE_S = 60, 1800  # the latter: drives are trimmed, which takes some of them minutes
_TOLERANCE = 0.02
# In a namespace of mounts of its own: nothing is left mounted, whatever ends this.
_BEGIN = 'mount -t xfs -o uquota -- "$1" /mnt && chmod 1777 /mnt && xfs_quota -x -c "$2" /mnt'


class NvmeDrive(NamedTuple):
    """An NVMe drive: what the kernel calls it, which changes, and what its maker does."""

    name: str
    serial: str
    size: int  # bytes

    @property
    def words(self) -> str:
        """To a person who stands before the machine."""
        return f"{self.name} (serial {self.serial})"


def compare(wanted: Volume) -> Json | None:
    """Whether it is there, and what a user may have on it where it is mounted."""
    device = _device(wanted)
    if device is None:
        own = _members(wanted)
        taken = [] if own else [drive.name for drive in _blank(wanted)[0]]
        return {"name": wanted.name, "exists": False, "drives": taken, "quota_gib": None}
    mounted = _is_mounted(wanted.mount, device)
    limits = _limits(wanted.mount) if mounted else {}
    as_wanted = not mounted or (_right_limits(wanted, limits) and _mode(wanted.mount) == _MODE)
    if as_wanted and not _lost(wanted, device) and _recorded(wanted) == _made_of(device):
        return None
    return {"name": wanted.name, "exists": True, "drives": [], "quota_gib": limits.get(0, 0) >> 20}


def obstacle(wanted: Volume, known: Known) -> str | None:  # noqa: ARG001
    """Report a lost drive, or too few empty ones: with the reason against each other drive, and the command to type."""
    if not _NAME.fullmatch(wanted.name) or wanted.drives < 1:
        return f"volume {wanted.name!r}: letters, digits, _ and - are its name, and it has drives"
    if wanted.raid not in ARRAYS or 1 < wanted.drives < ARRAYS[wanted.raid]:
        levels = ", ".join(f"{level} of {fewest} drives or more" for level, fewest in ARRAYS.items())
        return f"volume {wanted.name}: RAID {wanted.raid} of {wanted.drives} drives is not made; levels are {levels}"
    device = _device(wanted)
    lost = _lost(wanted, device)
    if lost:
        return lost
    if device is not None or len(_members(wanted)) == wanted.drives > 1:
        return None
    blank, others = _blank(wanted)
    if len(blank) == wanted.drives:
        return None
    told = "; ".join(others)
    if len(blank) > wanted.drives:
        which = ", ".join(drive.name for drive in blank)
        return f"the volume needs {wanted.drives} NVMe drives, but more are blank: {which}; hpcforge cannot choose"
    return (
        f"the volume needs {wanted.drives} blank NVMe drives, and the node has {len(blank)}"
        f"{f': {told}' if told else ''}; hpcforge formats only blank drives"
    )


def put(wanted: Volume) -> str | None:
    """Make it, or put together what is its own; then who may have how much. NodeError for what `obstacle` has."""
    done, device = "", _device(wanted)
    why = obstacle(wanted, None)
    if why:
        raise NodeError(why)
    if device is None:
        device, done = _made(wanted)
    if _recorded(wanted) != _made_of(device):
        _record(wanted, device)
        done = done or "recorded its drives"
    if not _is_mounted(wanted.mount, device):
        return done or None
    if _mode(wanted.mount) != _MODE:
        Path(wanted.mount).chmod(_MODE)
        done = done or "open to users"
    if not _right_limits(wanted, _limits(wanted.mount)):
        _limit(wanted)
        done = done or f"quota {wanted.quota_gib} GiB"
    return done or None


def own(name: str, change: Volume | None, made: set[str]) -> Json:  # noqa: ARG001
    """Nothing but that it is wanted here."""
    return {"before": None}


def restore(name: str, known: Known, report: EventReporter) -> str | None:  # noqa: ARG001
    """Nothing: its files are its users'."""
    return None


def is_there(name: str) -> bool:
    """Whether one was made here."""
    return (RECORDS / name).exists()


def stays(name: str, known: Known) -> KeptItem | None:  # noqa: ARG001
    """All of it."""
    return ("volume", name, "its drives and their data stay unchanged")


def room(wanted: Volume) -> list[SpaceNeed]:
    """Which drives it was made of."""
    return [SpaceNeed(str(RECORDS / wanted.name), BLOCK, 2)]


# What there is


def _drives() -> list[NvmeDrive]:
    """All NVMe drives, in the order of their numbers."""
    names = (path.name for path in SYSTEM.iterdir() if _NVME.fullmatch(path.name))
    return [_drive(name) for name in sorted(names, key=lambda name: [int(part) for part in re.findall("[0-9]+", name)])]


def _drive(name: str) -> NvmeDrive:
    return NvmeDrive(name, _said(name, "device/serial") or "unknown", 512 * int(_said(name, "size") or 0))


def _said(device: str, of: str) -> str:
    """Return the kernel's value for a block device; "" without one."""
    try:
        return (SYSTEM / device / of).read_text(errors="replace").strip()
    except OSError:
        return ""


def _device(wanted: Volume) -> str | None:
    """Return the kernel's name of the device that has the file system; None: there is none."""
    link = DEVICES / "disk" / "by-uuid" / wanted.uuid
    return link.resolve().name if link.exists() else None


def _array(wanted: Volume) -> str:
    """Return the identifier of its array."""
    return str(uuid.uuid5(uuid.UUID(wanted.uuid), "array"))


def _members(wanted: Volume) -> list[NvmeDrive]:
    """Return the drives that are part of its array."""
    if wanted.drives == 1:
        return []
    array = _array(wanted)
    return [drive for drive in _drives() if _is_member(drive.name, array)]


def _is_member(drive: str, array: str) -> bool:
    """Whether a drive says so; one that cannot be looked at says nothing."""
    try:
        return any(found.get("uuid") == array for found in _signatures(drive))
    except NodeError:
        return False


def _signatures(device: str) -> list[Json]:
    """Return libblkid's signatures of a device: file systems, members of arrays, partition tables and more."""
    said = commands.succeed(["wipefs", "--no-act", "--json", "--", str(DEVICES / device)], _LOOK_S)
    found: list[Json] = json.loads(said)["signatures"] if said.strip() else []
    return found


def _blank(wanted: Volume) -> tuple[list[NvmeDrive], list[str]]:
    """Return the empty drives of the size, and the reason against each of the others."""
    blank, others = [], []
    for drive in _drives():
        why = _why_not(drive, wanted)
        if why:
            others.append(f"{drive.name} {why}")
        else:
            blank.append(drive)
    return blank, others


def _why_not(drive: NvmeDrive, wanted: Volume) -> str | None:
    """Return the reason against using a drive."""
    mb = wanted.drive_mb
    if mb and abs(drive.size / 1e6 - mb) > _TOLERANCE * mb:
        return f"has {drive.size / 1e9:.1f} GB, and not {mb / 1e3:g}"
    path = DEVICES / drive.name
    parts = sorted(path.name for path in (SYSTEM / drive.name).iterdir() if (path / "partition").exists())
    try:
        signatures = _signatures(drive.name)
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL))  # busy: mounted, swapped to, part of an array or a group
    except NodeError as error:
        return f"cannot be read: {error}"
    except OSError as error:
        holders = _holders(drive.name)
        by = f" by {', '.join(holders)}" if holders else f" ({', '.join(parts)})" if parts else ""
        return f"is in use{by}: {error.strerror}"
    if not signatures and not parts:
        return None
    found = [
        " ".join(filter(None, (signature["type"], signature.get("label"), signature.get("uuid"))))
        for signature in signatures
    ]
    has = ", ".join([*dict.fromkeys(found), *(f"partition {part}" for part in parts)])
    wiped = " ".join(str(DEVICES / device) for device in (*parts, drive.name))
    return f"has {has} (to destroy all its data: wipefs --all {wiped})"


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


def _recorded(wanted: Volume) -> list[NvmeDrive]:
    """Return the drives of which it was made."""
    try:
        return [NvmeDrive(**record) for record in json.loads((RECORDS / wanted.name).read_text())]
    except (OSError, ValueError, TypeError):  # gone or damaged: it only names what is lost
        return []


def _lost(wanted: Volume, device: str | None) -> str | None:
    """Which of its drives are away, and what to do about it; None where all are there, or none."""
    if wanted.drives == 1:
        return None
    own = _members(wanted) if device is None else _made_of(device)
    broken = _is_broken(device) or (device and _said(device, "md/degraded") not in ("", "0"))
    if not own or (len(own) == wanted.drives and not broken):
        return None
    serials = {drive.serial for drive in _drives()}
    gone = [drive.words for drive in _recorded(wanted) if drive.serial not in serials]
    what = ", ".join(gone) or f"{wanted.drives - len(own) or 'some'} of its {wanted.drives} drives"
    arrays = sorted({holder for drive in own for holder in _holders(drive.name)})
    if wanted.drives - len(own) <= spare(wanted.raid, wanted.drives) and not _is_broken(device):
        array = device or next(iter(arrays), "md/ARRAY")
        start = "" if device else f"start the array without it (mdadm --run /dev/{array}), "
        return (
            f"{what} is lost; the files are safe: {start}insert another drive, and add it to the array "
            f"(mdadm --manage /dev/{array} --add /dev/DRIVE)"
        )
    left = " ".join(str(DEVICES / drive.name) for drive in own)
    stop = "".join(f"mdadm --stop /dev/{array}; " for array in arrays)
    return (
        f"{what} is lost, with all files; to build a new volume with the other drives and a replacement: umount "
        f"{wanted.mount}; {stop}wipefs --all {left}"
    )


def _is_broken(device: str | None) -> bool:
    """Whether too many drives of an array are away for it to have all files."""
    return device is not None and _said(device, "md/array_state") == "broken"


# Making it


def _made(wanted: Volume) -> tuple[str, str]:
    """Return the device of its file system, and the actions that made it."""
    own, begun = _members(wanted), RECORDS / f"{wanted.name}.begun"
    blank = [] if own else _blank(wanted)[0]
    name = (own or blank)[0].name
    if blank:
        _write(begun.name, [])
    if wanted.drives > 1:
        name = _assembled(wanted, own) if own else _new_array(wanted, blank)
        _settle()
        if _device(wanted) is not None:
            return str(_device(wanted)), "put together again"
        if not begun.exists():  # it was finished once, and files may be there that a damaged beginning hides
            drives = " ".join(str(DEVICES / drive.name) for drive in own)
            raise NodeError(
                f"/dev/{name} is the array of volume {wanted.name} without a file system: nothing was formatted "
                f"(check with xfs_repair -n /dev/{name}; to destroy all its data: mdadm --stop /dev/{name}; wipefs "
                f"--all {drives})"
            )
    if _signatures(name):
        raise NodeError(
            f"/dev/{name} has {_signatures(name)[0]['type']}, which hpcforge did not create: nothing was formatted"
        )
    # Not --force: it looks for itself once more whether something is there.
    make = ["mkfs.xfs", "-q", "-m", f"uuid={wanted.uuid}", "-L", wanted.name[:12], str(DEVICES / name)]
    commands.succeed(make, _MAKE_S)
    _settle()
    begin = ["unshare", "--mount", "sh", "-ec", _BEGIN, "sh", str(DEVICES / name), _default(wanted)]
    commands.succeed(begin, _LOOK_S)
    if _device(wanted) is None:
        raise NodeError(f"/dev/{name} was formatted, and udev does not show {wanted.uuid}: udevadm info /dev/{name}")
    begun.unlink(missing_ok=True)
    return name, f"formatted {', '.join(drive.name for drive in own or blank)}"


def _new_array(wanted: Volume, drives: list[NvmeDrive]) -> str:
    """Make an array of empty drives. mdadm checks them, too, and asks if one is not empty: the answer is no."""
    name = f"hpcforge-{wanted.name}"
    array = f"/dev/md/{name}"
    words = ["mdadm", "--create", array, f"--level={wanted.raid}", f"--raid-devices={wanted.drives}", "--metadata=1.2"]
    words += ["--homehost=any", f"--name={name[:27]}", f"--uuid={_array(wanted)}"]
    words += ["--bitmap=internal"] if wanted.raid else []
    commands.succeed([*words, *(str(DEVICES / drive.name) for drive in drives)], _MAKE_S)
    return Path(array).resolve().name


def _assembled(wanted: Volume, drives: list[NvmeDrive]) -> str:
    """Return the array of its own drives, assembled by udev, or else by mdadm now."""
    holders = _holders(drives[0].name)
    if holders:
        return holders[0]
    array = f"/dev/md/hpcforge-{wanted.name}"
    words = ["mdadm", "--assemble", array, f"--uuid={_array(wanted)}", "--homehost=any"]
    commands.succeed([*words, *(str(DEVICES / drive.name) for drive in drives)], _LOOK_S)
    return Path(array).resolve().name


def _settle() -> None:
    """Let udev see what is new: where the file system is."""
    commands.succeed(["udevadm", "settle", "--timeout=60"], 2 * _LOOK_S)


def _record(wanted: Volume, device: str) -> None:
    _write(wanted.name, _made_of(device))


def _write(name: str, drives: list[NvmeDrive]) -> None:
    folder = paths.open_directory(str(RECORDS), create=True)
    try:
        text = json.dumps([drive._asdict() for drive in drives]).encode()
        files.replace_by(folder, name, lambda fd: files.write_all(fd, text), files.Rights(0, 0, 0o644))
    finally:
        os.close(folder)


# Who may have how much


def _is_mounted(mount: str, device: str) -> bool:
    """Whether the file system of a device is at a place, by the kernel's list: the place is not touched."""
    number = _said(device, "dev")
    rows = (line.split(b" ") for line in Path("/proc/self/mountinfo").read_bytes().splitlines())
    return any(row[2].decode() == number and row[4] == os.fsencode(mount) for row in rows)


def _mode(mount: str) -> int:
    try:
        return stat.S_IMODE(Path(mount).stat().st_mode)
    except OSError as error:
        raise NodeError(f"{mount}: {error.strerror}") from None


def _limits(mount: str) -> dict[int, int]:
    """Return users' limits, KiB by number; number 0 has the limit of users without their own."""
    said = commands.succeed(["xfs_quota", "-x", "-c", "report -u -n -N -b", mount], _LOOK_S)
    return {int(number): int(hard) for number, hard in _QUOTA.findall(said)}


def _right_limits(wanted: Volume, limits: dict[int, int]) -> bool:
    """Whether everybody has that of all, or that of all."""
    limit = wanted.quota_gib << 20
    return limits.get(0, 0) == limit and all(hard in (0, limit) for hard in limits.values())


def _default(wanted: Volume) -> str:
    return f"limit -u -d bhard={wanted.quota_gib}g"


def _limit(wanted: Volume) -> None:
    """Have everybody have the same: XFS writes the limit of all down for each who has files, and leaves it there."""
    limit = wanted.quota_gib << 20
    others = [number for number, hard in _limits(wanted.mount).items() if number and hard not in (0, limit)]
    orders = [_default(wanted), *(f"limit -u bhard={wanted.quota_gib}g {number}" for number in others)]
    said = commands.run(
        ["xfs_quota", "-x", *(w for order in orders for w in ("-c", order)), wanted.mount], _LOOK_S, merge=True
    )
    if not _right_limits(wanted, _limits(wanted.mount)):  # it ends well, whatever it says
        raise NodeError(f"xfs_quota: the quota of {wanted.mount} is not as wanted: {said.stdout.strip()[:300]}")
