"""Pins of packages."""

from __future__ import annotations

import pytest

from hpcforge.kinds.pins import Pin


@pytest.mark.parametrize(
    ("packages", "words"),
    [
        (("a",), ("a",)),
        (("a b", "c"), ("a", "b", "c")),
        (("/^nvidia-/", "lib*"), ("/^nvidia-/", "lib*")),
    ],
)
def test_packages_may_stand_together_or_each_by_itself(packages: tuple[str, ...], words: tuple[str, ...]) -> None:
    pin = Pin("x", packages, "version 5*", 900)
    assert pin.packages == words
    assert pin == Pin("x", words, "version 5*", 900)
    assert pin.line({"exists": False}) == f"+ pin x: {' '.join(words)}: version 5*, priority 900"
