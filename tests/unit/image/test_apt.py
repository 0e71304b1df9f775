"""Which packages apt may choose for an image, and the names of its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.image.apt import Apt, file_of, preferences
from hpcforge.image.errors import ImageError
from tests.support.images import LOCK


def test_nothing_but_what_is_locked_can_be_chosen() -> None:
    assert preferences(LOCK.packages).split("\n\n") == [
        "Package: *\nPin: release *\nPin-Priority: -1",
        "Package: munge\nPin: version 0.5.15-2\nPin-Priority: 1001\n",
    ]
    assert file_of(replace(LOCK.packages[0], version="1:2-3")) == "munge_1%3a2-3_amd64.deb"


def test_the_age_of_an_image_is_that_of_its_youngest_package_list(tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    lists.mkdir()
    for name, day in (("a_Release", "08"), ("b_InRelease", "10"), ("c_Packages", "30")):
        (lists / name).write_text(f"Origin: Debian\nDate: Sat, {day} Jun 2024 11:27:51 UTC\nSuite: stable\n")
    assert Apt(tmp_path, ()).epoch_s == 1_718_018_871


def test_package_lists_without_a_date_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ImageError):
        _ = Apt(tmp_path, ()).epoch_s


def test_without_names_no_package_is_asked_for(tmp_path: Path) -> None:
    assert Apt(tmp_path / "absent", ()).offered([]) == frozenset()
