"""Building, as far as it needs no packages: room, archives, locks."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.host import package_sources
from hpcforge.image import store
from hpcforge.image.build import Tell, build, installed, pack
from hpcforge.image.errors import ImageError
from tests.support.images import LOCK, MANIFEST

EPOCH_S = 1_700_000_000


def tree(path: Path, names: list[str]) -> Path:
    path.mkdir()
    for name in names:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(name)
    os.utime(path / names[-1], (1_600_000_000, 1_600_000_000))
    return path


def test_the_archive_of_a_tree_knows_neither_when_nor_in_which_order_it_was_written(tmp_path: Path) -> None:
    names = ["etc/a", "etc/b", "usr/c", "d"]
    one, other = tree(tmp_path / "one", names), tree(tmp_path / "other", [*reversed(names[:3]), "d"])
    os.utime(other / "etc", (1_750_000_000.5, 1_750_000_000.5))
    archives = [tmp_path / "one.tar", tmp_path / "other.tar"]
    for made, archive in zip((one, other), archives, strict=True):
        pack(made, archive, EPOCH_S)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    (other / "etc" / "a").write_text("another")
    pack(other, archives[1], EPOCH_S)
    assert archives[0].read_bytes() != archives[1].read_bytes()


def test_a_kernel_that_no_source_has_is_an_error_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By apt itself, with a source of no packages; any other package is left to the first apply."""
    (tmp_path / "Packages").write_text("")
    monkeypatch.setattr(package_sources, "sources", lambda _release: f"deb [trusted=yes] file:{tmp_path} ./\n")
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(tmp_path / "cache"))
    request = replace(LOCK.request, packages=("linux-image-6.1.0-1-amd64", "munge"))
    with pytest.raises(ImageError, match=r"has the kernel linux-image-6\.1\.0-1-amd64") as caught:
        build(request, "site", MANIFEST.blueprints[0], lambda _: (), Tell(lambda _: None))
    assert "software.preinstalled.kernel" in caught.value.hint
    assert not list((tmp_path / "cache").rglob("*.deb"))


def test_packages_of_a_tree_are_those_that_are_installed(tmp_path: Path) -> None:
    folder = tmp_path / "var" / "lib" / "dpkg"
    folder.mkdir(parents=True)
    entry = "Package: {0}\nStatus: {1}\nVersion: 1:2-3\nArchitecture: amd64\nMaintainer: a <a@b>\nDescription: x\n\n"
    states = {"munge": "install ok installed", "gone": "deinstall ok config-files", "half": "install ok unpacked"}
    (folder / "status").write_text("".join(entry.format(name, state) for name, state in states.items()))
    assert [(one.name, one.version, one.architecture) for one in installed(tmp_path)] == [("munge", "1:2-3", "amd64")]


def test_an_image_s_folder_is_beside_the_base_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(tmp_path))
    assert store.directory("a-0123") == tmp_path / "images" / "a-0123"
