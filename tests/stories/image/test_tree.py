"""An image as a tree that a lab lies on: unpacked once, with a mount namespace of its own."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.image import store
from hpcforge.image.manifest import to_text
from hpcforge.image.tree import tree_of
from tests.support.images import MANIFEST, put


@pytest.fixture(autouse=True)
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(tmp_path))
    return tmp_path / "images"


@pytest.mark.lab
def test_it_is_unpacked_once_and_downloads_nothing_by_itself() -> None:
    place = put()
    with tarfile.open(place / store.ARCHIVE, "w") as tar:
        for name in ("etc/dpkg/dpkg.cfg.d/x", "etc/apt/apt.conf.d/x", "etc/systemd/system/x", "usr/bin/x"):
            entry = tarfile.TarInfo(f"./{name}")
            entry.size, entry.mode, entry.uid = 2, 0o4755, 64030
            tar.addfile(entry, io.BytesIO(b"x\n"))
    content = (place / store.ARCHIVE).read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    manifest = replace(MANIFEST, archive_sha256=sha256, archive_bytes=len(content))
    (place / store.MANIFEST).write_text(to_text(manifest))
    said: list[str] = []
    with tree_of(manifest, said.append) as tree:
        assert tree.is_relative_to(place)
        assert tree.stat().st_mode & 0o777 == 0o755
        program = (tree / "usr/bin/x").stat()
        assert (program.st_mode & 0o7777, program.st_uid) == (0o4755, 64030)
        assert (tree / "etc/systemd/system/apt-daily.timer").readlink() == Path("/dev/null")
    with tree_of(manifest, said.append):
        pass
    assert said == ["unpacking image a-0123"]
    assert [path.name for path in store.folder().iterdir() if path.name.startswith(".building")] == []
