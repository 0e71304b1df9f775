"""Changes that could lock us out, on a real node: confirmed they stay, else they take themselves back."""

import json
import time
from typing import Any

import pytest

from hpcforge.lab import lab as labs
from tests.support import node_program as nodes
from tests.support.node_program import KILL, Node, converge, details, of

pytestmark = pytest.mark.lab
CONF = "/etc/ssh/sshd_config.d/ours.conf"
CUT = """\
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'ip link set host0 down'
ExecStop=/bin/sh -c 'ip link set host0 up'
"""


@pytest.fixture(autouse=True)
def unguarded(node: Node) -> None:
    node.send(converge("remove", [], leave=True))
    node.shell(f"echo '# before' | sudo tee {CONF}")


def guarded(guard: str, revert_s: float = 60, **more: Any) -> list[dict[str, Any]]:
    return [{"role": "ssh", "guard": {"id": guard, "revert_s": revert_s}, **more}]


def put(node: Node, wanted, guard: str, text: str, revert_s: float = 60) -> nodes.Events:
    return node.send(converge("prepare", guarded(guard, revert_s, files=[wanted.root_file(CONF, text)])))


def restart(node: Node, wanted, guard: str, revert_s: float = 60, check: str = "true") -> nodes.Events:
    units = [{"name": "ssh.service", "actions": ["restart"]}]
    return node.send(converge("finish", guarded(guard, revert_s, units=units, checks=[wanted.check(check)])))


def traces(node: Node) -> list[str]:
    return node.shell("ls -d /etc/systemd/system/*guard*; sudo ls /var/lib/hpcforge/guards", check=False).split()


def reverted(node: Node) -> list[tuple[str, str, str]]:
    return [(one["guard"], one["role"], one["why"]) for one in node.observed()["reverted"]]


def test_confirmed_it_stays(node, wanted):
    assert details(put(node, wanted, "g.1", "# new\n")) == {CONF: "content"}
    assert details(restart(node, wanted, "g.1")) == {"ssh.service": "restarted"}
    [armed] = node.observed()["armed"]
    assert (armed["guard"], armed["roles"]) == ("g.1", ["ssh"])
    assert 40 < armed["left_s"] <= 60
    assert node.send({"verb": "confirm", "guard": "g.1"})[-1]["event"] == "done"
    assert node.shell(f"cat {CONF}") == "# new\n"
    assert traces(node) == []
    assert (node.observed()["armed"], node.observed()["reverted"]) == ([], [])


def test_unconfirmed_it_goes_and_cannot_be_confirmed_or_finished_any_more(node, wanted):
    pid = node.shell("systemctl show -P MainPID ssh")
    put(node, wanted, "g2", "# new\n")
    restart(node, wanted, "g2", 3)
    node.until(f"grep -q before {CONF}")
    node.until('test -z "$(ls /etc/systemd/system | grep guard)"')
    assert traces(node) == []
    assert node.shell("systemctl is-active ssh; systemctl show -P MainPID ssh").split()[0] == "active"
    assert node.shell("systemctl show -P MainPID ssh") != pid
    assert reverted(node) == [("g2", "ssh", "nobody confirmed it within 3 s")]
    [failed] = of(node.send({"verb": "confirm", "guard": "g2"}), "failed")
    assert "has been taken back (nobody confirmed it within 3 s); apply again" in failed["error"]
    [failed] = of(restart(node, wanted, "g2"), "failed")
    assert (failed["role"], failed["kind"]) == ("ssh", "guard")
    assert len(reverted(node)) == 1
    put(node, wanted, "g3", "# newer\n")
    assert reverted(node) == []


def test_the_network_is_cut_off_by_the_change_itself(node, wanted):
    """Nobody can get in to mend it: the node does."""
    files = [wanted.root_file("/etc/systemd/system/cut.service", CUT)]
    node.send(converge("prepare", guarded("cut", 4, files=files)))
    units = [{"name": "cut.service", "actions": ["start"]}]
    with node.started(converge("finish", guarded("cut", 4, units=units))) as program:
        time.sleep(2)
        program.kill()
    node.until('test -z "$(ls /etc/systemd/system | grep guard)"', timeout_s=60)  # the last that a revert does
    assert reverted(node) == [("cut", "ssh", "nobody confirmed it within 4 s")]
    assert node.shell("systemctl is-active cut; ls /etc/systemd/system/cut.service", check=False) == "inactive\n"


def test_it_goes_at_once_when_its_check_fails(node, wanted):
    put(node, wanted, "g4", "# new\n")
    events = restart(node, wanted, "g4", check="false")
    assert of(events, "failed")[-1]["error"] == "`false`: exit status 1\nwhat was changed for it was put back"
    assert details(events)[CONF] == "restored, as it was before the change"
    assert node.shell(f"cat {CONF}; systemctl is-active ssh") == "# before\nactive\n"
    assert reverted(node) == [("g4", "ssh", "`false`: exit status 1")]
    assert traces(node) == []


def test_content_that_its_own_program_refuses_never_gets_there(node, wanted):
    verify = ["/usr/sbin/sshd", "-t", "-f", "{file}"]
    other = wanted.root_file("/etc/ssh/sshd_config.d/first.conf", "# first\n", verify=verify)
    bad = wanted.root_file(CONF, "NoSuchOption yes\n", verify=verify)
    events = node.send(converge("prepare", guarded("g5", files=[other, bad])))
    failed = of(events, "failed")
    assert (
        f"{CONF} stays as it was, for `/usr/sbin/sshd -t -f {{file}}` says no to the new content" in failed[0]["error"]
    )
    assert "NoSuchOption" in failed[0]["error"]
    assert failed[-1]["error"].endswith("what was changed for it was put back")  # the first file went again, too
    assert node.shell(f"cat {CONF}; ls -A /etc/ssh/sshd_config.d") == "# before\nours.conf\n"


def test_killed_before_it_could_be_confirmed(node, wanted):
    many = [wanted.root_file(f"/etc/guarded/{n}", "x") for n in range(20)]
    slow = wanted.root_file("/etc/guarded/slow", "x", verify=["sleep", "55"])  # until it is killed
    files = [wanted.root_file(CONF, "# new\n"), *many, slow]
    with node.started(converge("prepare", guarded("g6", 3, files=files))) as program:
        assert json.loads(program.stdout.readline())["name"] == CONF
        node.shell(KILL)
        program.stdout.read()
    node.until('test -z "$(ls /etc/systemd/system | grep guard)"', timeout_s=60)
    assert node.shell(f"cat {CONF}; ls /etc/guarded | wc -l") == "# before\n0\n"


def test_a_later_change_goes_back_to_what_was_last_known_good(node, wanted):
    put(node, wanted, "g7", "# new\n")
    put(node, wanted, "g8", "# newer\n")
    assert [one["guard"] for one in node.observed()["armed"]] == ["g8"]
    restart(node, wanted, "g8", check="false")
    assert node.shell(f"cat {CONF}") == "# before\n"


def test_it_goes_also_when_the_node_restarts_meanwhile(lab, node, wanted):
    put(node, wanted, "g9", "# new\n", 5)
    labs.down(lab.name, ["ours"], nodes.quiet)
    nodes.up(lab.name, [labs.LabNode("full"), labs.LabNode("bare", python=False), labs.LabNode("ours")])
    node.until("true", timeout_s=60)
    node.until(f"grep -q before {CONF}", timeout_s=60)
    node.until('test -z "$(ls /etc/systemd/system | grep guard)"')
    assert reverted(node) == [("g9", "ssh", "nobody confirmed it within 5 s")]
    assert traces(node) == []
