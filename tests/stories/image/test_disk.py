"""An image's disk is built from its archive alone, and checked before use."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.image import recipe, store
from hpcforge.image.build import pack
from hpcforge.image.disk import disk_of
from hpcforge.image.errors import ImageError
from hpcforge.image.manifest import Manifest, to_text
from tests.support.images import LOCK, MANIFEST, REQUEST, put

FILES = {"boot/vmlinuz-6.1.0": "kernel", "boot/initrd.img-6.1.0": "initrd", "etc/hostname": "", "usr/bin/x": "x" * 9000}
BOOTS = replace(LOCK, request=replace(REQUEST, packages=("munge", recipe.KERNEL)))


@pytest.fixture(autouse=True)
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(tmp_path))
    return tmp_path / "images"


def silent(_: str) -> None:
    """For what has nothing to say here."""


def bootable(name: str = MANIFEST.name) -> Manifest:
    """An image with an archive of a few files."""
    place = put(replace(MANIFEST, name=name))
    tree = place / "tree"
    for path, content in FILES.items():
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        os.chown(file, 64030, 0)
        file.chmod(0o4755)
    (tree / "vmlinuz").symlink_to("boot/vmlinuz-6.1.0")
    pack(tree, place / store.ARCHIVE, LOCK.epoch_s)
    shutil.rmtree(tree)
    archive = (place / store.ARCHIVE).read_bytes()
    manifest = replace(
        MANIFEST,
        name=name,
        lock=BOOTS,
        archive_sha256=hashlib.sha256(archive).hexdigest(),
        archive_bytes=len(archive),
    )
    (place / store.MANIFEST).write_text(to_text(manifest))
    return manifest


@pytest.mark.lab
def test_two_makings_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    said: list[str] = []
    one, other = bootable(), bootable("b-0123")
    with disk_of(one, said.append) as place:
        first = (place / "root.ext4").read_bytes()
        assert (place / "vmlinuz").read_text() == "kernel"
        assert (place / "initrd.img").read_text() == "initrd"
    with disk_of(one, said.append) as again:
        assert again == place
    assert said == ["making the disk of image a-0123", "the disk of image a-0123 is ready"]
    with disk_of(other, silent) as another:
        assert (another / "root.ext4").read_bytes() == first
    noted = store.read(one.name).disk
    assert noted is not None
    assert (noted.bytes, noted.sha256) == (len(first), hashlib.sha256(first).hexdigest())
    subprocess.run(["e2fsck", "-f", "-n", place / "root.ext4"], check=True, capture_output=True)
    stat = subprocess.run(
        ["debugfs", "-R", "stat /usr/bin/x", place / "root.ext4"], check=True, capture_output=True, text=True
    ).stdout
    assert "Mode:  04755" in stat
    assert "User: 64030" in stat
    assert f"ctime: 0x{LOCK.epoch_s:08x}" in stat
    assert f"mtime: 0x{LOCK.epoch_s:08x}" in stat
    assert [path.name for path in store.folder().iterdir() if path.name.startswith(".building")] == []


@pytest.mark.lab
def test_a_disk_that_was_cut_short_or_changed_is_not_used() -> None:
    manifest = bootable()
    with disk_of(manifest, silent) as place:
        root = place / "root.ext4"
    whole = root.read_bytes()
    content = bytearray(whole)
    content[5000] ^= 1
    for wrong in (bytes(content), bytes(content[:-4096])):
        root.write_bytes(wrong)
        with pytest.raises(ImageError, match="is not the disk of the manifest"), disk_of(manifest, silent):
            pytest.fail("it was used")
    root.write_bytes(whole)
    for name in ("vmlinuz", "initrd.img"):
        with (place / name).open("r+") as file:
            file.truncate(3)
        with pytest.raises(ImageError, match=rf"{name} is not that of the manifest"), disk_of(manifest, silent):
            pytest.fail("it was used")
        (place / name).write_text(FILES[f"boot/{name}-6.1.0"])
    with disk_of(manifest, silent):
        pass  # as it was
    (place / "vmlinuz").unlink()
    with pytest.raises(ImageError, match="vmlinuz is not there"), disk_of(manifest, silent):
        pytest.fail("it was used")
