"""Earlier content: kept by its digest, and restored."""

from __future__ import annotations

import hashlib
from functools import partial

import pytest

from hpcforge.node import backups, ownership
from hpcforge.node.receipt import EMPTY


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Where contents from before go, in place of /var/lib."""
    folder = tmp_path / "originals"
    monkeypatch.setattr(backups, "keep", partial(backups.keep, folder=folder))
    return folder


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_file_gets_its_past_back(tmp_path, kept):
    path = tmp_path / "f"
    path.write_text("before us\n")
    path.chmod(0o4750)
    inode_gone = tmp_path / "gone"
    before = backups.keep(str(path))
    path.write_text("ours\n")
    path.chmod(0o600)
    put_back = partial(backups.restore, folder=kept)
    assert put_back(str(path), before) == "restored"
    assert (path.read_text(), path.stat().st_mode & 0o7777) == ("before us\n", 0o4750)
    assert put_back(str(path), before) is None
    assert put_back(str(inode_gone), None) is None
    assert put_back(str(path), None) == "removed"
    assert put_back(str(path), {"link": "/etc/hosts"}) == "restored"
    assert str(path.readlink()) == "/etc/hosts"
    assert put_back(str(path), {"link": "/etc/hosts"}) is None


def test_a_directory_in_its_place_is_left_alone(tmp_path, kept):
    path = tmp_path / "f"
    (path / "precious").mkdir(parents=True)
    with pytest.raises(backups.NodeError, match="is now a directory"):
        backups.restore(str(path), None, folder=kept)
    with pytest.raises(backups.NodeError, match="neither a file nor"):
        backups.keep(str(path))
    assert (path / "precious").is_dir()


def test_contents_that_nobody_tells_of_are_deleted(tmp_path, kept, wanted):
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text(f"before {path.name}\n")
    owned = ownership.intend(EMPTY, [{"role": "one", "files": [wanted.file(path) for path in paths]}])
    left = ownership.forget(owned, [{"role": "one", "files": [str(paths[0]), str(paths[1])], "wanted": True}])
    backups.tidy(left, guarded=[digest("before b\n")], folder=kept)
    assert {path.read_text() for path in kept.iterdir()} == {"before b\n", "before c\n"}
