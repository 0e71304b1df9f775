"""Machines that do not boot, that are killed, that have no room, and a lab of an older hpcforge: `make test-vm`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.host import processes
from hpcforge.image import store
from hpcforge.image.manifest import Disk, Manifest, to_text
from hpcforge.lab import lab as labs
from tests.support.vm_rehearsal import Rehearsal, blueprint, interfaces, machines, sockets, with_image

pytestmark = pytest.mark.vm

NAME = f"test-vm-faults-{os.getpid()}"
BLUEPRINT = blueprint(
    "machines",
    """\
nodes:
  head: {functions: [head, worker], hardware: rehearsal-node, addresses: 10.77.0.10}
slurm:
  enforce: []
  partitions:
    main: {nodes: head, default: true}
users:
  ada: {uid: 2001}
""",
)
LEFT = 8 << 20  # bytes of room that are left to a machine that is to run out of it
WRITE = "sudo dd if=/dev/urandom of=/root/much bs=1M count=64 conv=fsync status=none"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """A blueprint of one machine with its image, and no rehearsal of it."""
    with with_image(NAME, tmp_path_factory.mktemp("site"), BLUEPRINT) as rehearsal:
        yield rehearsal


@pytest.fixture
def image(here: Rehearsal) -> Manifest:
    """The image of that blueprint."""
    return next(
        one
        for one in store.all_images()
        if isinstance(one, Manifest) and str(here.blueprint) in {made_for.path for made_for in one.blueprints}
    )


def started() -> list[int]:
    """The processes of the rehearsal's machines, if there is one."""
    lab = labs.load(NAME)
    return [] if lab is None else machines(lab)


def on_host(lab: labs.Lab) -> list[str]:
    """What there is of a lab's machines on this host beside its folder and its bridge."""
    cards = [name for name in interfaces(lab) if name != lab.bridge]
    return [*map(str, machines(lab)), *cards, *(name for name in sockets(lab) if name.startswith(f"{lab.tag}-"))]


def another(image: Manifest, images: Path, file: str, content: bytes) -> None:
    """An image that is whole and has something else in one file of its disk."""
    disk = images / "images" / image.name / "disk"
    disk.mkdir(parents=True)
    for name in ("root.ext4", "vmlinuz", "initrd.img"):
        (disk / name).symlink_to(store.directory(image.name) / "disk" / name)
    (disk / file).unlink()
    (disk / file).write_bytes(content)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in disk.iterdir()}
    root = Disk(sums.pop("root.ext4"), (disk / "root.ext4").stat().st_size, sums)
    (disk.parent / store.MANIFEST).write_text(to_text(replace(image, disk=root)))


def empty_file_system(folder: Path) -> bytes:
    made = folder / "empty.ext4"
    with made.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", made], check=True)
    return made.read_bytes()


@pytest.fixture
def elsewhere(here: Rehearsal) -> Iterator[Path]:
    """Another folder of images, which the package proxy's own user gets to; no rehearsal afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="hpcforge-test-images-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        labs.down(here.name, None, print)
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("file", "says"),
    [("root.ext4", "No init found."), ("initrd.img", "Kernel panic - not syncing: VFS: Unable to mount root fs")],
)
def test_a_machine_that_does_not_boot_says_why_and_is_ended(
    here: Rehearsal, image: Manifest, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, file: str, says: str
) -> None:
    content = empty_file_system(elsewhere) if file == "root.ext4" else b""
    another(image, elsewhere, file, content)
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(elsewhere))
    said = here.run("rehearse", "up", here.blueprint, expect=1, errors=True)
    assert "node head did not boot: " in said and says in said
    lab = here.lab
    console = lab.directory / "nodes" / "head" / "console.log"
    assert f"its console is in {console}; `hpcforge rehearse up` tries again" in said
    assert says in console.read_text()
    assert on_host(lab) == []
    assert "head  10.77" in here.run("rehearse", "status", here.blueprint)
    assert "stopped" in here.run("rehearse", "status", here.blueprint)
    here.run("rehearse", "down", here.blueprint)
    assert not lab.directory.exists()
    assert labs.load(NAME) is None


@pytest.fixture(scope="module")
def small(here: Rehearsal) -> Iterator[Path]:
    """A rehearsal that was not started, whose machine lies on a file system of its own, of 100 MiB."""
    here.run("rehearse", "up", "--no-start", here.blueprint)
    lab = here.lab
    place = lab.directory / "nodes" / "head"
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        for pid in machines(lab):
            os.kill(pid, signal.SIGKILL)
        assert processes.wait_until(lambda: machines(lab) == [], timeout_s=60)
        if place.is_mount():
            subprocess.run(["umount", place], check=True)


def test_without_room_for_its_disk_no_machine_is_started(here: Rehearsal, small: Path) -> None:
    said = here.run("rehearse", "up", here.blueprint, expect=1, errors=True)
    assert f"node head needs 256 MiB in {small} to start, and 100 MiB are free" in said
    assert "make room there" in said
    assert started() == []
    subprocess.run(["mount", "-o", "remount,size=3g", small], check=True)


def test_a_machine_that_is_killed_while_it_boots_is_named_and_leaves_nothing(here: Rehearsal, small: Path) -> None:
    booting = here.start("rehearse", "up", here.blueprint)
    try:
        assert processes.wait_until(lambda: started() != [], timeout_s=120)
        os.kill(started()[0], signal.SIGKILL)
        _, said = booting.communicate(timeout=120)
    finally:
        booting.kill()
    assert booting.returncode == 1, said
    assert "node head did not boot: its QEMU has ended" in said
    lab = here.lab
    assert on_host(lab) == []
    assert "head  10.77" in here.run("rehearse", "up", here.blueprint)  # it starts


def test_a_machine_that_this_host_has_no_room_for_is_held_and_goes_on(here: Rehearsal, small: Path) -> None:
    filler = small / "filler"
    free = shutil.disk_usage(small).free
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - LEFT)
    writes = here.start("rehearse", "ssh", here.blueprint, "head", "--", f"{WRITE} && sudo sha256sum /root/much")
    try:
        assert processes.wait_until(lambda: shutil.disk_usage(small).free == 0, timeout_s=120)
        # Held only once QEMU was refused a write: until then it answers.
        said = ""

        def held() -> bool:
            nonlocal said
            asked = here.start("rehearse", "up", here.blueprint)
            try:
                _, said = asked.communicate(timeout=300)
            finally:
                asked.kill()
            return asked.returncode == 1

        assert processes.wait_until(held, timeout_s=300, every_s=2)
        assert f"node head is paused: no room to write in {small}" in said
        assert "make room there, then `hpcforge rehearse up` again: it continues" in said
        filler.unlink()
        assert "head  10.77" in here.run("rehearse", "up", here.blueprint)
        written, said = writes.communicate(timeout=300)
    finally:
        writes.kill()
    assert writes.returncode == 0, said
    here.on("head", "echo 3 | sudo tee /proc/sys/vm/drop_caches >/dev/null")
    assert here.on("head", "sudo sha256sum /root/much") == written  # as it is on the disk


def test_a_machine_that_was_killed_is_stopped_and_starts_again(here: Rehearsal, small: Path) -> None:
    assert small.exists()
    before = here.on("head", "cat /etc/machine-id")
    here.cut_power("head")
    assert "stopped" in here.run("rehearse", "status", here.blueprint)
    said = here.run("rehearse", "ssh", here.blueprint, "head", "--", "true", expect=3, errors=True)
    assert "is stopped" in said and "rehearse up" in said
    here.run("rehearse", "up", here.blueprint)
    assert "running" in here.run("rehearse", "status", here.blueprint)
    assert here.on("head", "cat /etc/machine-id") == before


def test_a_lab_of_an_older_hpcforge_is_left_alone_and_can_be_taken_down(here: Rehearsal, small: Path) -> None:
    lab = here.lab
    running, path = started(), lab.directory / "lab.json"
    assert len(running) == 1
    older = json.dumps({**json.loads(path.read_text()), "schema": 2})
    path.write_text(older)
    for verb in ("up", "status"):
        said = here.run("rehearse", verb, here.blueprint, expect=1, errors=True)
        assert f"{path} cannot be read: it was written by another version of hpcforge" in said
        assert f"hpcforge rehearse down --lab {NAME}" in said
    assert (path.read_text(), machines(lab)) == (older, running)
    # Its file system is the test's own: from here on its machine runs on what it has open.
    subprocess.run(["umount", "--lazy", small], check=True)
    here.run("rehearse", "down", "--lab", NAME)
    assert on_host(lab) == []
    assert not Path("/sys/class/net", lab.bridge).exists()
    assert not lab.directory.exists()
