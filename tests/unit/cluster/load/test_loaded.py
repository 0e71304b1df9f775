"""A blueprint that was read, and its files since."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cluster import Loaded, load
from hpcforge.errors import ChangedFileError
from tests.unit.blueprint.drafts import SMALL


@pytest.fixture
def site(tmp_path: Path) -> Loaded:
    (tmp_path / "machines.yaml").write_text("schema: 1\r\nnodes: {}\r\n", newline="")
    (tmp_path / "site.yaml").write_text(f"inventory: machines.yaml\n{SMALL}")
    return load(tmp_path / "site.yaml")


def test_texts_are_those_that_were_read_with_their_line_ends(site: Loaded) -> None:
    assert site.inventory_path is not None
    assert site.text(site.inventory_path) == "schema: 1\r\nnodes: {}\r\n"
    assert site.text(site.blueprint_path).endswith(SMALL)
    site.require_unchanged()


@pytest.mark.parametrize("name", ["site.yaml", "machines.yaml"])
@pytest.mark.parametrize("change", ["edited", "removed"])
def test_a_file_that_has_changed_since_is_not_used(site: Loaded, name: str, change: str) -> None:
    path = site.blueprint_path.with_name(name)
    if change == "edited":
        path.write_text(path.read_text() + "# more\n")
    else:
        path.unlink()
    with pytest.raises(ChangedFileError):
        site.require_unchanged()


def test_a_file_that_was_edited_and_restored_is_the_same(site: Loaded) -> None:
    content = site.blueprint_path.read_bytes()
    site.blueprint_path.write_text("x")
    site.blueprint_path.write_bytes(content)
    site.require_unchanged()
