"""Kernel parameters on a real node, in its own network namespace."""

import pytest

from tests.stories.node.kinds.conftest import Life

FORWARD = "net.ipv4.ip_forward"


@pytest.mark.lab
def test_a_parameter_is_set_kept_and_put_back(life: Life) -> None:
    shell = life.node.shell
    before = shell(f"sudo sysctl -n {FORWARD}").strip()
    value = "1" if before == "0" else "0"
    wanted = {"name": FORWARD, "value": value}
    assert life.found(wanted) == [{"name": FORWARD, "exists": True, "value": before, "kept": False}]
    assert life.put(wanted) == {FORWARD: f"{before} -> {value}"}
    assert shell(f"sudo sysctl -n {FORWARD}").strip() == value
    assert shell("cat /etc/sysctl.d/zz-hpcforge-net.ipv4.ip_forward.conf") == f"{FORWARD} = {value}\n"

    shell(f"sudo sysctl -q -w {FORWARD}={before}")  # by hand
    assert life.found(wanted) == [{"name": FORWARD, "exists": True, "value": before, "kept": True, "put": True}]
    life.put(wanted)
    life.remove()
    assert shell(f"sudo sysctl -n {FORWARD}").strip() == before
    assert shell("ls /etc/sysctl.d/ | grep -c hpcforge || true").strip() == "0"


@pytest.mark.lab
def test_what_was_set_by_hand_since_stays_and_is_told(life: Life) -> None:
    ports = "net.ipv4.ip_local_port_range"
    wanted = {"name": ports, "value": "20000 30000"}
    assert ports in life.put(wanted)
    life.node.shell(f"sudo sysctl -q -w '{ports}=20000 40000'")
    [warning] = [one["detail"] for one in life.remove() if one["event"] == "warning"]
    assert f"{ports} stays 20000 40000" in warning


@pytest.mark.lab
@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("net.ipv4.no_such", "1", "has no parameter net.ipv4.no_such"),
        ("net.ipv4.ip_local_port_range", "many", "the kernel does not take 'many'"),
        ("../passwd", "1", "is not the name of a kernel parameter"),
    ],
)
def test_what_cannot_be_set_is_said(life: Life, name: str, value: str, why: str) -> None:
    assert why in life.refused({"name": name, "value": value})
    life.node.shell("! ls /etc/sysctl.d/ | grep hpcforge")
