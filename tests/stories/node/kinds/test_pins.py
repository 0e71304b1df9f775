"""Preferences of apt's on a real node."""

import pytest

from tests.stories.node.kinds.conftest import Json, Life

PIN = {"name": "no-less", "packages": ["less", "less-*"], "pin": "release n=bookworm", "priority": -10}


@pytest.mark.lab
def test_apt_follows_a_pin_while_it_is_there(life: Life) -> None:
    def candidate() -> str:
        policy = life.node.shell("sudo apt-get update -q >/dev/null; apt-cache policy less")
        return next(line.split()[-1] for line in policy.splitlines() if "Candidate" in line)

    before = candidate()
    assert life.put(PIN) == {"no-less": "created"}
    assert candidate() != before
    assert life.put({**PIN, "priority": 500}) == {"no-less": "content"}
    assert candidate() == before
    life.remove()
    life.node.shell("! ls /etc/apt/preferences.d/no-less")


@pytest.mark.lab
@pytest.mark.parametrize(
    ("more", "why"), [({"name": "a.b"}, "cannot be the name of a pin"), ({"pin": "1.2"}, "`version ...`")]
)
def test_what_apt_would_take_no_notice_of_is_refused(life: Life, more: Json, why: str) -> None:
    assert why in life.refused({**PIN, **more})
