"""Symbolic links on a real node."""

import pytest

from tests.stories.node.kinds.conftest import Life

LINK = "/opt/tools/current"


@pytest.mark.lab
def test_a_link_comes_moves_and_goes_with_the_directory_made_for_it(life: Life) -> None:
    first, second = ({"path": LINK, "target": target} for target in ("/usr/bin", "../share"))
    assert life.found(first) == [{"path": LINK, "exists": False, "kind": None, "target": None}]
    assert life.put(first) == {LINK: "created"}
    assert life.node.shell(f"stat -c '%U %N' {LINK}") == f"root '{LINK}' -> '/usr/bin'\n"
    [found] = life.found(second)
    assert (found["kind"], found["target"], found["put"]) == ("symlink", "/usr/bin", False)
    assert life.put(second) == {LINK: "-> ../share"}
    life.node.shell(f"sudo ln -sfn /tmp {LINK}")
    assert life.found(second)[0]["put"]  # somebody else changed it
    life.put(second)
    life.remove()
    assert life.node.shell("ls -d /opt/tools || true") == ""


@pytest.mark.lab
def test_what_was_there_before_comes_back(life: Life) -> None:
    life.node.shell("echo hers | sudo tee /etc/ours >/dev/null; sudo chmod 640 /etc/ours; sudo ln -sfn /old /etc/other")
    items = [{"path": f"/etc/{name}", "target": "/etc/hostname"} for name in ("ours", "other")]
    assert set(life.put(*items)) == {"/etc/ours", "/etc/other"}
    life.remove(items[0])
    assert life.node.shell("readlink /etc/other /etc/ours") == "/old\n/etc/hostname\n"
    life.remove()
    assert life.node.shell("sudo stat -c %a /etc/ours; sudo cat /etc/ours") == "640\nhers\n"
    life.node.shell("sudo rm /etc/ours /etc/other")


@pytest.mark.lab
def test_a_directory_is_not_replaced_nor_a_file_that_somebody_put_there_since(life: Life) -> None:
    assert "move it away" in life.refused({"path": "/etc/apt", "target": "/tmp"})
    life.put({"path": "/etc/was-link", "target": "/tmp"})
    life.node.shell("sudo rm /etc/was-link; echo hers | sudo tee /etc/was-link")
    [warning] = [one["detail"] for one in life.remove() if one["event"] == "warning"]
    assert "is now a file instead of a symbolic link: not touched" in warning
    assert life.node.shell("cat /etc/was-link") == "hers\n"
