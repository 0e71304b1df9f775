"""Folders of a site's own roles beside the shipped one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.reader import find, read_bytes
from hpcforge.blueprint.role_declarations import ROLES
from hpcforge.blueprint.site_folders import OwnFolders, own_folders


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Shipped roles a and b, and folders of a site."""
    for name in ("shipped/a", "shipped/b", "ours/c", "again/a", "odd/Bad-Name", "empty"):
        (tmp_path / name).mkdir(parents=True)
        if name != "empty":
            (tmp_path / name / "role.yaml").write_text("description: x\n")
    (tmp_path / "link").symlink_to("ours")
    return tmp_path


def own(site: Path, *folders: str) -> OwnFolders:
    text = f"role_folders: [{', '.join(folders)}]\nservices: {{x: {{on: head}}}}\n"
    return own_folders(read_bytes(text.encode(), "b.yaml"), ROLES, site, site / "shipped")


def test_folders_of_a_site_follow_the_shipped_one(site: Path) -> None:
    result = own(site, "ours")
    assert (result.folders, result.findings) == ((site / "shipped", site / "ours"), ())


@pytest.mark.parametrize(
    ("folders", "places", "usable"),
    [
        (["nosuch"], [0], []),
        (["empty"], [0], []),
        (["ours/c"], [0], []),  # a role itself
        (["shipped"], [0], []),
        (["ours", "ours"], [1], ["ours"]),
        (["ours", "link"], [1], ["ours"]),
        (["again"], [0], []),  # a role cannot replace a shipped one
        (["odd"], [0], []),
        (["nosuch", "ours"], [0], ["ours"]),
    ],
)
def test_a_folder_that_cannot_be_used_is_named_and_left_out(
    site: Path, folders: list[str], places: list[int], usable: list[str]
) -> None:
    result = own(site, *folders)
    assert [finding.loc for finding in result.findings] == [("role_folders", place) for place in places]
    assert result.folders == (site / "shipped", *(site / name for name in usable))


@pytest.mark.parametrize(("folder", "unread"), [("ours", False), ("nosuch", True)])
def test_what_follows_from_a_wrong_folder_counts_as_not_read(site: Path, folder: str, unread: bool) -> None:
    services = find(own(site, folder).document.root, ("services",))
    assert services is not None
    assert services.broken is unread
