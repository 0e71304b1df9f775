"""Building without room: a file system that is too small, and one that is read-only."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.image.build import ensure_room, pack
from hpcforge.image.errors import ImageError
from hpcforge.image.long_commands import watched
from tests.support.images import LOCK

EPOCH_S = 1_700_000_000


def tree(path: Path, names: list[str]) -> Path:
    path.mkdir()
    for name in names:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(name)
    os.utime(path / names[-1], (1_600_000_000, 1_600_000_000))
    return path


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.lab
def test_no_room_is_said_before_anything_is_built(small: Path) -> None:
    with pytest.raises(ImageError, match=r"an image needs about 26\d MiB in .*, and [12] MiB are free") as caught:
        ensure_room(small, LOCK)
    assert "make room" in caught.value.hint
    ensure_room(Path("/"), replace(LOCK, packages=()))


@pytest.mark.lab
def test_room_that_ends_midway_is_said(small: Path, tmp_path: Path) -> None:
    big = tree(tmp_path / "big", ["etc/a"])
    (big / "etc" / "a").write_bytes(bytes(4 << 20))
    with pytest.raises(ImageError, match=r"`tar` has no room to write in .*small") as caught:
        pack(big, small / "root.tar", EPOCH_S)
    assert "make room" in caught.value.hint


@pytest.mark.lab
def test_a_program_that_waits_where_nothing_can_be_written_is_ended(small: Path) -> None:
    began = time.monotonic()
    with pytest.raises(ImageError, match=r"`sh` has no room to write in .*small"):
        watched(["sh", "-c", f"cat /dev/zero > {small}/big; sleep 300"], small, lambda: None, with_us=True)
    assert time.monotonic() - began < 240


@pytest.mark.lab
def test_no_room_for_package_lists_is_said_before_they_are_read(small: Path) -> None:
    blueprint = Path(__file__).parents[1] / "faults" / "site.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "hpcforge", "image", "build", "--disk", blueprint],
        env={**os.environ, "HPCFORGE_CACHE_DIR": str(small)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert f"error: package lists take about 64 MiB in {small}/images/.apt-debian-12, and " in done.stderr
    assert "hint: make room there, or move images and base systems: HPCFORGE_CACHE_DIR" in done.stderr
    assert [path for path in small.rglob("*") if path.is_file()] == [small / "images" / ".lock"]
