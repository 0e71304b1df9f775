"""What is written down of an image."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hpcforge.image.errors import ImageError
from hpcforge.image.manifest import check_name, from_text, name_of, to_text
from tests.support.images import LOCK, MANIFEST


def test_it_comes_back_as_it_was_written() -> None:
    assert from_text(to_text(MANIFEST), "there") == MANIFEST


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"archive_bytes": 10', '"archive_bytes": 11', "its checksum is another one"),
        ('"schema": 1', '"schema": 2', "another version of hpcforge"),
        ('"schema": 1,', "", "schema"),
        ("{", "[", "line 2"),
    ],
)
def test_one_that_was_changed_or_cut_short_is_refused(old: str, new: str, why: str) -> None:
    with pytest.raises(ImageError, match=why) as caught:
        from_text(to_text(MANIFEST).replace(old, new, 1), "/images/a/manifest.json")
    assert "/images/a/manifest.json cannot be read" in str(caught.value)


def test_one_that_was_cut_short_is_refused() -> None:
    text = to_text(MANIFEST)
    with pytest.raises(ImageError, match="cannot be read"):
        from_text(text[: len(text) // 2], "there")


def test_one_of_other_types_is_refused() -> None:
    document = json.loads(to_text(replace(MANIFEST, archive_bytes=10)))
    for wrong in ([], 7, None, {"schema": 1}):
        with pytest.raises(ImageError, match="cannot be read"):
            from_text(json.dumps(wrong), "there")
    assert document["image"]["archive_bytes"] == 10


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../../etc", "a/b", "/etc", ".building-a", "-rf", "a\0b", "a b", "A", "a" * 49, "a\n", "é"]
)
def test_a_name_that_would_leave_the_folder_is_none(name: str) -> None:
    with pytest.raises(ImageError, match="is no name of an image"):
        check_name(name)


@pytest.mark.parametrize("cluster", ["rehearsal", "Aurora 2", "../..", "ü", "-x-", "a" * 200, ""])
def test_any_cluster_s_name_gives_one(cluster: str) -> None:
    assert name_of(cluster, LOCK).endswith(f"-{LOCK.digest[:8]}")


def test_the_name_follows_from_what_is_in_it_and_not_from_when_lists_were_made() -> None:
    newer = replace(LOCK.packages[0], version="2")
    assert name_of("a", replace(LOCK, epoch_s=LOCK.epoch_s + 1)) == name_of("a", LOCK)
    for other in (
        replace(LOCK, packages=(newer,)),
        replace(LOCK, recipe="other"),
        replace(LOCK, sources=("deb http://example.org bookworm main",)),
        replace(LOCK, request=replace(LOCK.request, units=("a.service",))),
    ):
        assert name_of("a", other) != name_of("a", LOCK)
