"""What goes wrong with a rehearsal before any node of it starts: it is said, and nothing is left or harmed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.host import package_sources
from hpcforge.image import recipe, store
from hpcforge.lab import lab as labs
from hpcforge.lab import state
from hpcforge.lab.names import lab_directory
from hpcforge.lab.network import bridges_of
from hpcforge.run.site import image_request
from tests.stories.lab.conftest import left
from tests.support.images import MANIFEST, put

pytestmark = pytest.mark.lab
BLUEPRINT = Path(__file__).parents[1] / "faults" / "site.yaml"


@dataclass
class Here:
    """Blueprints in folders of their own, and one name for the rehearsals of all."""

    name: str
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def blueprint(self, folder: str) -> Path:
        """A blueprint that differs from the others in nothing but where it lies."""
        path = self.folder / folder / "site.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(BLUEPRINT.read_text())
        return path

    def start(self, *words: object, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        env = {name: value for name, value in os.environ.items() if name != "HPCFORGE_NO_IMAGE"}
        return subprocess.Popen(
            [*before, sys.executable, "-m", "hpcforge", *map(str, words)],
            env={**env, "HPCFORGE_LAB": self.name, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: object, expect: int = 0, before: tuple[str, ...] = ()) -> str:
        running = self.start(*words, before=before)
        try:
            said, _ = running.communicate(timeout=600)
        finally:
            running.kill()
        assert running.returncode == expect, said
        return said


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    one = Here(f"test-faulty-{os.getpid()}", tmp_path)
    try:
        yield one
    finally:
        labs.down(one.name, None, print)


def test_of_two_labs_with_one_name_the_second_is_refused_and_the_first_unharmed(here: Here) -> None:
    first, second = here.blueprint("first"), here.blueprint("second")
    here.run("rehearse", "up", "--no-start", first)
    lab = state.read(here.name)
    assert lab is not None
    said = here.run("rehearse", "up", "--no-start", second, expect=1)
    assert f"lab {here.name} is the rehearsal of {first}, not of {second}" in said
    assert "give this one another name" in said and f"rehearse down --lab {here.name}" in said
    assert state.read(here.name) == lab
    assert bridges_of(here.name) == {lab.bridge}
    here.run("rehearse", "up", "--no-start", first)  # as before
    first.rename(second)  # who moves a blueprint keeps its rehearsal
    here.run("rehearse", "up", "--no-start", second)
    there = state.read(here.name)
    assert there == replace(lab, blueprint=str(second))


def test_of_two_labs_with_one_name_at_once_one_comes_up(here: Here) -> None:
    blueprints = [here.blueprint("first"), here.blueprint("second")]
    running = [here.start("rehearse", "up", "--no-start", blueprint) for blueprint in blueprints]
    try:
        said = [one.communicate(timeout=600)[0] for one in running]
    finally:
        for one in running:
            one.kill()
    assert sorted(one.returncode for one in running) == [0, 1], said
    won, lost = (next(at for at, one in enumerate(running) if one.returncode == code) for code in (0, 1))
    lab = state.read(here.name)
    assert lab is not None
    assert lab.blueprint == str(blueprints[won])
    assert f"is the rehearsal of {blueprints[won]}, not of {blueprints[lost]}" in said[lost]
    assert bridges_of(here.name) == {lab.bridge}


@pytest.mark.parametrize("change", [{"schema": 99}, {"schema": 1, "kind": None}])
def test_a_lab_of_another_hpcforge_is_left_alone_and_can_be_taken_down(here: Here, change: dict[str, object]) -> None:
    blueprint = here.blueprint("site")
    here.run("rehearse", "up", "--no-start", blueprint)
    lab = state.read(here.name)
    assert lab is not None
    path = lab.directory / "lab.json"
    written = {**json.loads(path.read_text()), **change}
    other = json.dumps({key: value for key, value in written.items() if value is not None})
    path.write_text(other)
    said = here.run("rehearse", "up", blueprint, expect=1)
    assert f"{path} cannot be read: it " in said and "version of hpcforge" in said
    assert f"hpcforge rehearse down --lab {here.name}" in said
    assert f"{path} cannot be read: it " in here.run("rehearse", "status", blueprint, expect=1)
    assert "version of hpcforge" in here.run("rehearse", "list")
    assert path.read_text() == other
    assert bridges_of(here.name) == {lab.bridge}
    here.run("rehearse", "down", "--lab", here.name)
    assert left(here.name, lab.tag) == []
    assert labs.load(here.name) is None


@pytest.fixture
def image(here: Here, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an image that nodes of the blueprint would lie on, in a cache of its own."""
    here.env["HPCFORGE_CACHE_DIR"] = str(here.folder / "cache")
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(here.folder / "cache"))
    request = image_request(load(here.blueprint("site")))
    sources = tuple(package_sources.sources(request.release).splitlines())
    how = recipe.digest(package_sources.options())
    return put(replace(MANIFEST, lock=replace(MANIFEST.lock, request=request, sources=sources, recipe=how)))


def test_an_image_that_was_cut_short_is_found_before_there_is_a_lab(here: Here, image: Path) -> None:
    archive = image / store.ARCHIVE
    os.truncate(archive, archive.stat().st_size - 1)
    said = here.run("rehearse", "up", here.blueprint("site"), expect=1)
    assert f"{archive} has 9 bytes of 10: it was cut short or changed" in said
    assert f"hpcforge image remove {MANIFEST.name}" in said
    assert not lab_directory(here.name).exists()
    assert bridges_of(here.name) == set()
    here.run("image", "remove", MANIFEST.name)
    assert store.names() == ()


def test_no_room_for_what_is_written_down_of_a_lab_is_said_and_leaves_nothing(here: Here, image: Path) -> None:
    (image / "tree").mkdir()  # as if it were unpacked: no base system is looked for where no lab can be seen
    full = "mkdir -p $D; mount -t tmpfs -o size=64k tmpfs $D; cat /dev/zero > $D/full 2>/dev/null"
    show = "find $D -name '*.json*' -printf 'left: %p\\n'"  # in a name space of its own, which ends with it
    before = ("unshare", "--mount", "sh", "-c", f'D=/var/lib/hpcforge; {full}; "$@"; code=$?; {show}; exit $code', "sh")
    said = here.run("rehearse", "up", here.blueprint("site"), expect=1, before=before)
    assert "/lab.json: No space left on device\nhint: make room, then run it again\n" in said
    assert "left: " not in said
    assert bridges_of(here.name) == set()
