"""Removing what a node has written: all of it, and nothing that it points to."""

import os
from pathlib import Path

import pytest

from hpcforge.host.paths import remove_tree


def test_all_of_it_goes_and_nothing_that_links_point_to(tmp_path: Path) -> None:
    kept, gone = tmp_path / "kept", tmp_path / "gone"
    (kept / "deep").mkdir(parents=True)
    (kept / "deep/file").write_text("kept")
    for folder in ("a/b/c", "a/empty", *(f"many/{number}" for number in range(50))):
        (gone / folder).mkdir(parents=True)
        (gone / folder / "file").write_text("gone")
    (gone / "a/link").symlink_to(kept)
    (gone / "a/b/file_link").symlink_to(kept / "deep/file")
    (gone / "a/dangling").symlink_to("/nowhere")
    os.mkfifo(gone / "a/fifo")
    remove_tree(gone)
    assert not gone.exists()
    assert (kept / "deep/file").read_text() == "kept"


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        remove_tree(tmp_path / "nowhere")
