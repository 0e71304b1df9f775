"""Unix groups on a real node."""

import pytest

from tests.stories.node.kinds.conftest import Life

STAFF = {"name": "operators", "gid": 3100}


@pytest.mark.lab
def test_a_group_comes_and_goes(life: Life) -> None:
    assert life.found(STAFF) == [{"name": "operators", "exists": False, "gid": None}]
    assert life.put(STAFF) == {"operators": "created"}
    assert life.node.shell("getent group operators") == "operators:x:3100:\n"
    life.remove()
    assert life.node.shell("getent group operators || true") == ""


@pytest.mark.lab
def test_one_with_somebody_in_it_stays_and_so_does_one_of_before_us(life: Life) -> None:
    life.put(STAFF, {"name": "video", "gid": int(life.node.shell("getent group video | cut -d: -f3"))})
    life.node.shell("sudo gpasswd -a ops operators")
    [warning] = [one["detail"] for one in life.remove() if one["event"] == "warning"]
    assert "group operators stays, for ops" in warning
    assert life.node.shell("getent group video operators").count("\n") == 2
    life.node.shell("sudo groupdel operators")


@pytest.mark.lab
def test_no_group_is_renumbered_and_no_number_shared(life: Life) -> None:
    assert "groupmod --gid 3100 ops" in life.refused({"name": "ops", "gid": 3100})
    assert "belongs to 'video' on this node" in life.refused({"name": "operators", "gid": 44})
