"""What a node that leaves keeps of /var/lib/hpcforge, where it is somebody's own machine with rehearsals."""

from __future__ import annotations

from pathlib import Path

from hpcforge.node import remove


def _folder(path: Path) -> Path:
    (path / "originals").mkdir(parents=True)
    (path / "originals/etc").write_text("old")
    (path / "receipt.json").write_text("{}")
    (path / "verdicts.json").symlink_to("/etc/hostname")
    return path


def test_all_of_it_goes(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "hpcforge")
    assert remove.clear(folder)
    assert not folder.exists()


def test_rehearsals_stay(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "hpcforge")
    disk = folder / "labs/mine/nodes/w01/disks/1"
    disk.mkdir(parents=True)
    (disk / "kept").write_text("work of weeks")
    assert not remove.clear(folder)
    assert [path.name for path in folder.iterdir()] == ["labs"]
    assert (disk / "kept").read_text() == "work of weeks"
    assert Path("/etc/hostname").exists()
