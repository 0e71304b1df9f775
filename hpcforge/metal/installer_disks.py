"""Partitions and mirrors for debian-installer, by the declared `system_disk`. Pure.

The layout is that of hpcforge's own installer: on each disk a partition for GRUB on BIOS and one for EFI, the declared
partitions, and / with the rest; on two disks each of these is RAID 1. The installer proposes it on blank disks alone:
where as many disks are blank at both ends as the system takes, these are named; otherwise it asks which. It asks in any
case before it writes, since nothing here confirms that.

Forms: the recipes of partman-auto 162, the README of partman-auto-raid, and its `display.d/10initial_auto`, which
takes a machine's only disk if a method is set, and asks where it has several and none is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from hpcforge.cluster.model import SystemDisk

_ROOT_MB = 10_000  # smallest size of /
_LARGEST = -1  # the largest size that the disk allows
_FILE_SYSTEM = "method{ format } format{ } use_filesystem{ } filesystem{ ext4 } mountpoint{ %s }"
# 1 MiB at both ends of a disk has partition tables, signatures of RAID and LVM, and the first file system.
_BLANK = """\
zero=$(dd if=/dev/zero bs=512 count=2048 | sha256sum); blank=; \
for disk in $(list-devices disk); do \
size=$(cat /sys/block/${disk##*/}/size); \
[ "$size" -gt 4096 ] || continue; \
[ "$(dd if=$disk bs=512 count=2048 | sha256sum)" = "$zero" ] || continue; \
[ "$(dd if=$disk bs=512 count=2048 skip=$((size - 2048)) | sha256sum)" = "$zero" ] || continue; \
blank="$blank $disk"; done; \
set -- $blank; \
if [ $# -eq %d ]; then debconf-set partman-auto/disk "$*"; debconf-set grub-installer/bootdev "$*"; fi"""


def disk_lines(disk: SystemDisk) -> list[str]:
    """Return the lines of a preseed file; none for one disk without further partitions, where the installer asks."""
    if disk == SystemDisk():
        return []
    mirrored = disk.drives > 1
    mounts = [*disk.partitions_gib, "/"]
    lines = [
        f"d-i partman/early_command string {_BLANK % disk.drives}",
        f"d-i partman-auto/method string {'raid' if mirrored else 'regular'}",
        "d-i partman-partitioning/choose_label select gpt",
        "d-i partman-partitioning/default_label string gpt",
        "d-i partman-basicfilesystems/no_swap boolean false",
        "d-i partman-auto/expert_recipe string hpcforge :: \\",
        *_recipe(disk),
    ]
    if mirrored:
        arrays = [f"  1 {disk.drives} 0 ext4 {mount} raidid={number} ." for number, mount in enumerate(mounts, 1)]
        lines += ["d-i partman-auto-raid/recipe string \\", *_continued(arrays)]
    return lines


def disk_text(disk: SystemDisk) -> str:
    """Return what a `system_disk` declares beside one disk with / alone; "" for nothing."""
    mirrors = [f"RAID 1 of {disk.drives} disks"] if disk.drives > 1 else []
    return ", ".join([*mirrors, *(f"{mount} with {gib} GiB" for mount, gib in disk.partitions_gib.items())])


def _recipe(disk: SystemDisk) -> list[str]:
    """Return the partitions of each disk: least, priority and largest size in MB, and what they are for."""
    lines = ["  1 1 1 free $iflabel{ gpt } $primary{ } method{ biosgrub } ."]
    lines.append("  538 538 538 free $iflabel{ gpt } $primary{ } method{ efi } format{ } .")
    for number, (mount, least_mb, most_mb) in enumerate(_sizes(disk), 1):
        kind = "raid" if disk.drives > 1 else "ext4"
        use = f"method{{ raid }} raidid{{ {number} }}" if disk.drives > 1 else _FILE_SYSTEM % mount
        lines.append(f"  {least_mb} {least_mb} {most_mb} {kind} $primary{{ }} {use} .")
    return list(_continued(lines))


def _sizes(disk: SystemDisk) -> Iterator[tuple[str, int, int]]:
    for mount, gib in disk.partitions_gib.items():
        size_mb = -(-(gib << 30) // 10**6)
        yield mount, size_mb, size_mb
    yield "/", _ROOT_MB, _LARGEST


def _continued(lines: list[str]) -> Iterator[str]:
    yield from (f"{line} \\" for line in lines[:-1])
    yield lines[-1]
