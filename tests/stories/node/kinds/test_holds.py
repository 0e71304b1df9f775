"""Held packages on a real node."""

import pytest

from tests.stories.node.kinds.conftest import Life


@pytest.mark.lab
def test_a_package_is_held_and_let_go_of_and_one_of_before_stays_held(life: Life) -> None:
    life.node.shell("sudo apt-mark hold tar")
    items = [{"name": "tar"}, {"name": "sed"}]
    assert life.found(*items) == [{"name": "sed", "exists": True}]
    assert life.put(*items) == {"sed": "held"}
    assert life.node.shell("apt-mark showhold").split() == ["sed", "tar"]
    life.remove()
    assert life.node.shell("apt-mark showhold").split() == ["tar"]
    life.node.shell("sudo apt-mark unhold tar")


@pytest.mark.lab
@pytest.mark.parametrize(
    ("name", "why"), [("no-such-package", "is not installed"), ("tar-", "'tar-' is not a package name")]
)
def test_what_is_not_there_cannot_be_held(life: Life, name: str, why: str) -> None:
    assert why in life.refused({"name": name})
