"""An image's archive as a disk that virtual machines boot: a root file system, with kernel and initrd beside it.

It is made without mounting a file system, and only from the archive: two builds are identical.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hpcforge.atomic import write_atomically
from hpcforge.host.paths import Progress
from hpcforge.host.resources import available_mib
from hpcforge.image import node_system, store
from hpcforge.image.errors import ImageError
from hpcforge.image.long_commands import ensure_room, watched
from hpcforge.image.manifest import Disk, Manifest, to_text
from hpcforge.image.request import KERNELS

_FOLDER = "disk"
_NAMESPACE = uuid.UUID("2b7c5ad5-6a2f-4f0a-9d3b-52a4a5f5b6de")
_MIB = 1 << 20
_BESIDE = (node_system.KERNEL, node_system.INITRD)

# Arguments: archive, folder for the disk, an empty folder to unpack in, seconds since 1970, UUID, hash seed.
# Unpacked in memory: on disk the order of names in a folder depends on the file system.
# mke2fs copies access and change times of files: they are set to the epoch afterwards.
_MAKE = r"""
set -e
export E2FSPROGS_FAKE_TIME="$4"
mount -t tmpfs -o mode=0755,size=100% tmpfs "$3"
mkdir -m 0755 "$3/tree"
tar --extract --numeric-owner --same-permissions --xattrs --xattrs-include=security.capability \
  --directory "$3/tree" --file "$1"
for what in vmlinuz initrd.img; do
  set -- "$@" "$3"/tree/boot/$what-*
  eval "found=\${$#}"
  cp "$found" "$2/$what"
done
mib=$(($(du --summarize --block-size=1M "$3/tree" | cut -f1) * 23 / 20 + 128))
truncate --size="${mib}M" "$2/root.ext4"
mke2fs -q -F -t ext4 -m 1 -L root -U "$5" -E "hash_seed=$6,lazy_itable_init=1,lazy_journal_init=1" \
  -d "$3/tree" "$2/root.ext4"
dumpe2fs -h "$2/root.ext4" 2> "$3/said" | awk -v at="@$4" '
  /^Inode count:/ { inodes = $3 }
  /^Free inodes:/ { free = $3 }
  END {
    for (i = 2; i <= inodes - free; i++)
      if (i == 2 || i > 10) print "sif <" i "> atime " at "\nsif <" i "> ctime " at
  }
' > "$3/commands"
debugfs -w -f "$3/commands" "$2/root.ext4" > "$3/said" 2>&1
if grep -v '^debugfs' "$3/said" | grep .; then exit 1; fi
"""


@contextmanager
def disk_of(manifest: Manifest, progress: Progress) -> Iterator[Path]:
    """Yield the folder of an image's disk, made if missing, and prevent its removal meanwhile.

    Record a lab that uses it inside the context. Raise ImageError if the image is missing, has no kernel, or was
    changed.
    """
    with store.lock(progress) as handle:
        image = store.read(manifest.name)
        place = store.directory(image.name) / _FOLDER
        if image.disk is None:
            progress(f"making the disk of image {image.name}")
            image = _make(image, place, handle)
            progress(f"the disk of image {image.name} is ready")
        _check(image, place)
        yield place


def disk_path(manifest: Manifest) -> Path:
    """Return the path of an image's disk, present or not."""
    return store.directory(manifest.name) / _FOLDER / node_system.DISK


def _make(manifest: Manifest, place: Path, handle: int) -> Manifest:
    if not any(name.startswith(KERNELS) for name in manifest.lock.to_install):
        raise ImageError(f"image {manifest.name} has no kernel", "hpcforge image build --disk BLUEPRINT")
    archive = store.checked(manifest)
    _ensure_room(manifest)
    making = store.building(manifest.name)
    disk, unpacking = making / _FOLDER, making / "unpacking"
    for folder in (disk, unpacking):
        folder.mkdir(mode=0o755)
    ids = [str(uuid.uuid5(_NAMESPACE, f"{word} {manifest.archive_sha256}")) for word in ("root", "hash seed")]
    argv: list[str | Path] = ["unshare", "--mount", "sh", "-c", _MAKE, "sh"]
    argv += [archive, disk, unpacking, str(manifest.lock.epoch_s), *ids]
    watched(argv, making, lambda: None, pass_on=(handle,), with_us=True)
    unpacking.rmdir()
    if place.exists():  # left by an interrupted build that was not recorded
        shutil.rmtree(place)
    root = disk / node_system.DISK
    checksums = {name: store.sha256_of(disk / name) for name in _BESIDE}
    made = replace(manifest, disk=Disk(store.sha256_of(root), root.stat().st_size, checksums))
    disk.rename(place)
    making.rmdir()
    write_atomically(store.directory(manifest.name) / store.MANIFEST, to_text(made), mode=0o644)
    return made


def _ensure_room(manifest: Manifest) -> None:
    """Raise ImageError unless the tree fits in memory and the disk where images are."""
    tree_mib = manifest.archive_bytes * 5 // 4 // _MIB
    if available_mib() < tree_mib + 256:
        raise ImageError(
            f"making a disk takes {tree_mib + 256} MiB of memory, and {available_mib()} MiB are free",
            "take a rehearsal down, then run it again",
        )
    ensure_room(store.folder(), tree_mib + 128, "a disk takes")


def _check(manifest: Manifest, place: Path) -> None:
    """Raise ImageError unless the disk is unchanged since its build."""
    hint = f"hpcforge image remove {manifest.name}, then build it again with --disk"
    root, disk = place / node_system.DISK, manifest.disk
    if absent := [
        name for name in (node_system.DISK, node_system.KERNEL, node_system.INITRD) if not (place / name).is_file()
    ]:
        raise ImageError(f"{place / absent[0]} is not there", hint)
    if disk is None or root.stat().st_size != disk.bytes or store.sha256_of(root) != disk.sha256:
        raise ImageError(f"{root} is not the disk of the manifest: it was cut short or changed", hint)
    for name, sha256 in disk.beside.items():
        if store.sha256_of(place / name) != sha256:
            raise ImageError(f"{place / name} is not that of the manifest: it was cut short or changed", hint)
