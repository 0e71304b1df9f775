"""An image as a tree that a lab lies on."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.image import store
from hpcforge.image.errors import ImageError
from hpcforge.image.tree import tree_of
from tests.support.images import MANIFEST, put


@pytest.fixture(autouse=True)
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(tmp_path))
    return tmp_path / "images"


def silent(_: str) -> None:
    """For what has nothing to say here."""


def test_an_archive_that_was_cut_short_is_not_unpacked() -> None:
    place = put()
    (place / store.ARCHIVE).write_bytes(b"01234")
    with pytest.raises(ImageError, match="it was cut short"), tree_of(MANIFEST, silent):
        pytest.fail("it was used")
    assert sorted(path.name for path in place.iterdir()) == [store.MANIFEST, store.ARCHIVE]


def test_one_that_is_gone_by_now_is_not_used() -> None:
    with pytest.raises(ImageError, match="image 'a-0123' does not exist"), tree_of(MANIFEST, silent):
        pytest.fail("it was used")
