"""Unix accounts on a real node: until when they can be used."""

from typing import Any

import pytest

from tests.stories.node.kinds.conftest import Life

pytestmark = pytest.mark.lab
DAY = {"2999-12-30": "376198", "2001-02-03": "11356"}  # of /etc/shadow: `date -ud 2001-02-03 +%s` / 86,400

KEY = """
set -e
rm -f /tmp/guest
ssh-keygen -q -t ed25519 -N '' -f /tmp/guest
sudo install -d -m 700 -o guest -g guest /home/guest/.ssh
sudo install -m 600 -o guest -g guest /tmp/guest.pub /home/guest/.ssh/authorized_keys
"""
SSH = "ssh -i /tmp/guest -o BatchMode=yes -o StrictHostKeyChecking=accept-new guest@localhost"


def account(**more: Any) -> dict[str, Any]:
    return {"name": "guest", "uid": 2345, "home": "/home/guest", "shell": "/bin/sh", **more}


def shadow(life: Life) -> str:
    return life.node.shell("sudo getent shadow guest | cut -d: -f8").strip()


def test_an_account_expires_and_expires_no_more(life: Life) -> None:
    assert life.put(account(expires="2999-12-30")) == {"guest": "created"}
    assert shadow(life) == DAY["2999-12-30"]
    assert life.node.shell("sudo su guest -c 'echo in'") == "in\n"
    life.node.shell(KEY)
    assert life.node.shell(f"{SSH} echo in") == "in\n"

    assert life.put(account(expires="2001-02-03")) == {"guest": "expires 2001-02-03"}
    assert shadow(life) == DAY["2001-02-03"]
    assert "expired" in life.node.shell("sudo su guest -c 'echo in' 2>&1", check=False)
    assert "in" not in life.node.shell(f"{SSH} echo in", check=False).split()  # with her key neither

    life.node.shell("sudo usermod --expiredate 2999-12-30 guest")
    [found] = life.found(account(expires="2001-02-03"))
    assert (found["exists"], found["expires"]) == (True, "2999-12-30")

    assert life.put(account()) == {"guest": "expires never"}
    assert shadow(life) == ""


def test_one_that_was_locked_expires_as_wanted_when_it_is_back(life: Life) -> None:
    life.put(account())
    life.remove()
    assert shadow(life) == "1"
    assert life.found(account(expires="2999-12-30"))[0]["expires"] == "locked"
    assert life.put(account(expires="2999-12-30")) == {"guest": "unlocked"}
    assert shadow(life) == DAY["2999-12-30"]
    life.node.shell("sudo userdel --remove guest")
