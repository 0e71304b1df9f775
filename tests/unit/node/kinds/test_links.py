"""Symbolic links, put and put back."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from hpcforge.kinds.links import Link
from hpcforge.node import backups
from hpcforge.node.events import EventReporter
from hpcforge.node.kinds import UNKNOWN, links

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="links are root's")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("keep", "restore"):
        monkeypatch.setattr(backups, name, partial(getattr(backups, name), folder=tmp_path / "originals"))
    return tmp_path / "deep" / "link"


@pytest.mark.parametrize(
    ("present", "difference"),
    [
        ("nothing", {"exists": False, "kind": None, "target": None}),
        ("file", {"exists": True, "kind": "file", "target": None}),
        ("other link", {"exists": True, "kind": "symlink", "target": "/old"}),
        ("link", None),
    ],
)
def test_what_is_at_the_path_is_compared_and_replaced(path: Path, present: str, difference: dict[str, object]) -> None:
    link = Link(str(path), "/new")
    if present != "nothing":
        path.parent.mkdir()
    if present == "file":
        path.write_text("earlier\n")
    elif present.endswith("link"):
        path.symlink_to("/old" if present == "other link" else "/new")
    assert links.compare(link) == (difference and {"path": str(path), **difference})
    assert links.obstacle(link, None) is None
    assert bool(links.put(link)) == (difference is not None)
    assert str(path.readlink()) == "/new"
    assert links.put(link) is None


@pytest.mark.parametrize("before", [None, "earlier\n"])
def test_the_earlier_file_comes_back(path: Path, before: str | None, report: EventReporter) -> None:
    if before is not None:
        path.parent.mkdir()
        path.write_text(before)
    link, made = Link(str(path), "/new"), set[str]()
    record = links.own(link.path, link, made)
    links.put(link)
    assert record is not None
    assert record["made"] == [*made] == ([] if before else [str(path.parent)])
    assert links.restore(link.path, record, report) == ("restored" if before else "removed")
    assert (path.read_text() if path.exists() else None) == before


def test_a_file_in_place_of_the_link_is_left_alone(
    path: Path, report: EventReporter, heard: list[dict[str, str]]
) -> None:
    path.parent.mkdir()
    path.write_text("theirs\n")
    assert links.restore(str(path), {"before": UNKNOWN, "made": []}, report) is None
    assert path.read_text() == "theirs\n"
    assert [event["event"] for event in heard] == ["warning"]


def test_a_directory_is_an_obstacle(path: Path) -> None:
    path.mkdir(parents=True)
    assert links.obstacle(Link(str(path), "/new"), None)
    assert links.obstacle(Link("relative", "/new"), None)


def test_a_link_that_was_right_already_has_no_known_past(path: Path) -> None:
    assert links.own(str(path), None, set()) is None
    path.parent.mkdir()
    path.symlink_to("/new")
    assert links.own(str(path), None, set()) == {"before": UNKNOWN, "made": []}
