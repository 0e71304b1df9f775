"""Where images are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.host import paths as host_paths
from hpcforge.image import store
from hpcforge.image.errors import ImageError
from hpcforge.image.manifest import Manifest
from hpcforge.lab import state
from hpcforge.locks import HeldError
from tests.support.images import LOCK, MANIFEST, REQUEST, put


@pytest.fixture(autouse=True)
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(tmp_path))
    return tmp_path / "images"


def silent(_: str) -> None:
    """For what has nothing to say here."""


def test_an_archive_that_was_cut_short_or_changed_is_found() -> None:
    archive = put() / store.ARCHIVE
    assert store.checked(MANIFEST) == archive
    archive.write_bytes(b"01234")
    with pytest.raises(ImageError, match="has 5 bytes of 10: it was cut short"):
        store.checked(MANIFEST)
    archive.write_bytes(b"012345678x")
    with pytest.raises(ImageError, match="another checksum"):
        store.checked(MANIFEST)
    archive.unlink()
    with pytest.raises(ImageError, match="is not there"):
        store.checked(MANIFEST)


def test_one_that_cannot_be_read_is_listed_with_why_and_can_be_removed() -> None:
    (put() / store.MANIFEST).write_text("{")
    (found,) = store.all_images()
    assert isinstance(found, store.Unreadable)
    assert "cannot be read" in found.problem
    assert store.matching(REQUEST, LOCK.recipe, LOCK.sources) is None
    store.remove(found.name, nobody, silent)
    assert store.names() == ()


def test_a_folder_with_another_image_s_manifest_is_no_image(images: Path) -> None:
    put().rename(images / "b")
    with pytest.raises(ImageError, match=r"is the manifest of 'a-0123'"):
        store.read("b")


def test_the_youngest_that_is_asked_for_and_made_so_matches() -> None:
    put()
    put(replace(MANIFEST, name="b-0123", built_s=MANIFEST.built_s + 1))
    found = store.matching(REQUEST, LOCK.recipe, LOCK.sources)
    assert isinstance(found, Manifest)
    assert found.name == "b-0123"
    for request, recipe, sources in (
        (replace(REQUEST, packages=("chrony",)), LOCK.recipe, LOCK.sources),
        (REQUEST, "older", LOCK.sources),
        (REQUEST, LOCK.recipe, ()),
    ):
        assert store.matching(request, recipe, sources) is None


def test_one_that_a_lab_lies_on_stays_and_is_named_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that another version of hpcforge has written down."""
    monkeypatch.setattr(host_paths, "STATE", tmp_path / "state")
    for lab, layer in (("my-lab", put() / "tree"), ("other", store.directory("a-01234") / "tree")):
        (tmp_path / "state" / "labs" / lab).mkdir(parents=True)
        (tmp_path / "state" / "labs" / lab / "lab.json").write_text(json.dumps({"schema": 0, "layers": [str(layer)]}))
    with pytest.raises(ImageError, match=r"used by my-lab$") as caught:
        store.remove(MANIFEST.name, state.lying_on, silent)
    assert "rehearse down" in caught.value.hint
    assert store.read(MANIFEST.name) == MANIFEST
    (tmp_path / "state" / "labs" / "my-lab" / "lab.json").unlink()
    store.remove(MANIFEST.name, state.lying_on, silent)
    assert store.names() == ()


def nobody(_: Path) -> tuple[str, ...]:
    return ()


@pytest.mark.parametrize("name", ["..", "../base", "/etc", ".lock", ""])
def test_nothing_outside_the_folder_can_be_removed(name: str, images: Path) -> None:
    (images.parent / "base").mkdir()
    put()
    with pytest.raises(ImageError, match="is not a valid image name"):
        store.remove(name, nobody, silent)
    assert (images.parent / "base").is_dir()
    assert store.names() == (MANIFEST.name,)


def test_removing_what_is_not_there_says_what_there_is() -> None:
    put()
    with pytest.raises(ImageError, match=r"image 'b' does not exist \(available: a-0123\)"):
        store.remove("b", nobody, silent)


def test_what_was_cut_off_is_no_image_and_goes_with_the_next_run(images: Path) -> None:
    put()
    (store.building("c") / "tree").mkdir()
    assert store.names() == (MANIFEST.name,)
    said: list[str] = []
    store.remove(MANIFEST.name, nobody, said.append)
    assert said == [f"removing {images}/.building-c, of a run that was cut off"]
    assert list(images.iterdir()) == []


def test_one_that_is_kept_again_takes_the_place_of_the_one_before() -> None:
    (put() / "old").touch()
    built = store.building(MANIFEST.name)
    (built / "new").touch()
    store.keep(built, MANIFEST.name)
    assert [path.name for path in store.directory(MANIFEST.name).iterdir()] == ["new"]


def test_one_that_machines_are_written_from_is_not_removed_or_replaced(images: Path) -> None:
    put()
    built = store.building(MANIFEST.name)
    with store.in_use(MANIFEST.name), store.in_use(MANIFEST.name):
        for change in (lambda: store.remove(MANIFEST.name, nobody, silent), lambda: store.keep(built, MANIFEST.name)):
            with pytest.raises(HeldError) as refused:
                change()
            served = f"image {MANIFEST.name} is served to machines by "
            assert str(refused.value).startswith(served) and f"process {os.getpid()}" in str(refused.value)
        assert store.read(MANIFEST.name) == MANIFEST
    store.remove(MANIFEST.name, nobody, silent)
    assert list(images.iterdir()) == []


_HOLDER = "import sys; from hpcforge.image import store\nwith store.lock(print): print('has it', flush=True); input()"


def test_two_runs_take_turns() -> None:
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "has it\n"

        def waiting(text: str) -> None:
            said.append(text)
            assert holder.poll() is None
            assert holder.stdin is not None
            holder.stdin.write("\n")  # only now
            holder.stdin.flush()

        with store.lock(waiting):
            assert said == ["waiting: another run is building or removing an image"]
