"""An image's disk: made of its archive alone, and checked before it is used."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.image.disk import disk_of
from hpcforge.image.errors import ImageError
from hpcforge.image.manifest import Disk, from_text, to_text
from hpcforge.image.recipe import METAL_KERNEL
from hpcforge.image.request import LeftPackage
from tests.support.images import MANIFEST, put


@pytest.fixture(autouse=True)
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(tmp_path))
    return tmp_path / "images"


def silent(_: str) -> None:
    """For what has nothing to say here."""


def test_an_image_without_a_kernel_has_no_disk() -> None:
    put()
    with pytest.raises(ImageError, match="image a-0123 has no kernel") as caught, disk_of(MANIFEST, silent):
        pytest.fail("it was used")
    assert caught.value.hint == "hpcforge image build --disk BLUEPRINT"


def test_an_image_that_leaves_its_kernel_to_the_first_apply_has_no_disk() -> None:
    left = (LeftPackage(METAL_KERNEL, "no source has it"),)
    lock = replace(MANIFEST.lock, request=replace(MANIFEST.lock.request, packages=(METAL_KERNEL,)), left=left)
    manifest = replace(MANIFEST, lock=lock)
    put(manifest)
    with pytest.raises(ImageError, match="has no kernel"), disk_of(manifest, silent):
        pytest.fail("it was used")


def test_a_manifest_of_before_disks_is_read() -> None:
    assert MANIFEST.disk is None
    assert from_text(to_text(MANIFEST), "there").disk is None


def test_a_disk_of_before_kernels_were_summed_up_is_read() -> None:
    text = to_text(replace(MANIFEST, disk=Disk("0" * 64, 4096, {"vmlinuz": "1" * 64})))
    assert from_text(text, "there").disk == Disk("0" * 64, 4096, {"vmlinuz": "1" * 64})
    image = json.loads(text)["image"]
    del image["disk"]["beside"]
    sha256 = hashlib.sha256(json.dumps(image, sort_keys=True).encode()).hexdigest()
    older = json.dumps({"schema": 1, "sha256": sha256, "image": image})
    assert from_text(older, "there").disk == Disk("0" * 64, 4096)
