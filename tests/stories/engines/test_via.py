"""Nodes behind a jump host, which this machine has no way to: 32 of them through one that keeps sshd's own limits.

n2 plays all of them by 32 more addresses, in a subnet that only n1 shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.engines import Engines
from hpcforge.engines.tasks import Ansible, Command, Deploy, HostKey, NodeProgram, Target
from tests.stories.engines.conftest import Nodes, finish
from tests.support import plain_engines as plain

pytestmark = pytest.mark.lab

BEHIND = "203.0.113"  # TEST-NET-3: no machine's own
COUNT = 32
LOGINS = "ss -Htn state established '( sport = :22 )' | wc -l"


@pytest.fixture(scope="module")
def behind(nodes: Nodes) -> Iterator[list[Target]]:
    """The targets behind n1. n2 takes as many logins at once as the 32 machines together would."""
    nodes.inside("n1", f"ip address add {BEHIND}.254/24 dev host0")
    nodes.inside("n2", f"for i in $(seq {COUNT}); do ip address add {BEHIND}.$i/24 dev host0; done")
    many = "/etc/ssh/sshd_config.d/test_via.conf"
    nodes.inside("n2", f"echo MaxStartups 200 >{many}; systemctl reload ssh")
    try:
        n2 = nodes.targets["n2"]
        yield [replace(n2, name=f"v{i:02}", address=f"{BEHIND}.{i}") for i in range(1, COUNT + 1)]
    finally:
        nodes.inside("n1", f"ip address del {BEHIND}.254/24 dev host0")
        nodes.inside("n2", f"for i in $(seq {COUNT} -1 1); do ip address del {BEHIND}.$i/24 dev host0; done")
        nodes.inside("n2", f"rm {many}; systemctl reload ssh")


@pytest.fixture
def through(nodes: Nodes, behind: list[Target], tmp_path: Path) -> Iterator[Engines]:
    targets = [*behind, nodes.targets["n1"]]
    with Engines(targets, tmp_path / "work", tmp_path / "artifacts", via=nodes.targets["n1"]) as engines:
        yield engines


def test_32_nodes_over_one_connection(through: Engines, nodes: Nodes, behind: list[Target]) -> None:
    limits = nodes.inside("n1", "sshd -T 2>/dev/null | grep -E '^max(startups|sessions)'").split("\n")
    assert sorted(limits)[1:] == ["maxsessions 10", "maxstartups 10:30:100"]  # Debian's own
    request = {"verb": "observe", "wanted": [], "reads": ["/etc/hostname"]}
    seen = finish(through, *(NodeProgram(target.name, target.name, request, 60.0) for target in behind))
    for events in seen.values():
        data = {event.kind: event.data for event in events}
        assert data["result"]["ok"], data["result"]["error"]
        assert data["observed"]["reads"] == {"/etc/hostname": "n2\n"}
    # this look is a login too; were each node a connection of its own there would be 33
    assert int(nodes.inside("n1", LOGINS)) == 2


def test_the_jump_host_itself_is_a_node(through: Engines) -> None:
    assert through.run(Command("t", "n1", ("hostname",))).data["stdout"] == "n1\n"


def test_deploys_work_through_it(through: Engines, tmp_path: Path) -> None:
    source = tmp_path / "role" / "deploy.py"
    source.parent.mkdir()
    source.write_text(
        "from io import StringIO\nfrom pyinfra.operations import files\n"
        "files.put(name='Note', src=StringIO('through'), dest='/root/via_note')\n"
    )
    answer = through.run(Deploy("t", "v07", source, {}, 60.0)).data
    assert answer["ok"], answer
    assert through.run(Command("r", "v08", ("cat", "/root/via_note"), user="root")).data["stdout"] == "through\n"


def test_ansible_works_through_it_over_one_more_connection(
    through: Engines, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcforge.engines.ansible.GATHER_S", 3.0)  # however long it takes to ask for three
    role = tmp_path / "site role" / "note"
    (role / "tasks").mkdir(parents=True)
    (role / "tasks" / "main.yml").write_text(
        "- name: note\n  copy: {content: '{{ text }}', dest: '/root/via_{{ text }}'}\n"
        "- name: logins\n  wait_for: {path: /root/via_seen, timeout: 300}\n"
    )
    for node in ("v01", "v02", "v03"):
        through.start(Ansible(node, node, role, {"text": node}, 120.0))
    logins, results = [], {}
    while len(results) < 3:
        event = through.next(60.0)
        assert event is not None
        if event.kind == "progress" and event.data["detail"] == "logins":
            logins.append(int(nodes.inside("n1", LOGINS)))
            if len(logins) == 3:
                nodes.inside("n2", "touch /root/via_seen")
        if event.kind == "result":
            results[event.node] = event.data
    for node, data in results.items():
        assert data["ok"], data["error"]
        assert nodes.inside("n2", f"cat /root/via_{node}") == node
    assert logins == [2, 2, 2]  # one for all of Ansible, and the look itself


@pytest.fixture(scope="module")
def machines(nodes: Nodes) -> Iterator[dict[str, Target]]:
    """n1, and behind it n2 by another address: in a subnet of the cluster's, as a blueprint wants it."""
    nodes.inside("n1", "ip address add 10.203.113.254/24 dev host0")
    nodes.inside("n2", "ip address add 10.203.113.1/24 dev host0")
    try:
        yield {"n1": nodes.targets["n1"], "v01": replace(nodes.targets["n2"], name="v01", address="10.203.113.1")}
    finally:
        nodes.inside("n1", "ip address del 10.203.113.254/24 dev host0")
        nodes.inside("n2", "ip address del 10.203.113.1/24 dev host0")


def test_plain_ansible_and_plain_pyinfra_get_in_as_hpcforge_does(
    nodes: Nodes, machines: dict[str, Target], tmp_path: Path
) -> None:
    """By the entry points of inventory/: host keys pinned, through the jump host, and no value is a template."""
    said = "{{ 1+1 }} $(id) %h"
    blueprint = plain.blueprint(tmp_path, nodes.lab, machines, said)
    groups = {"n1": "function_head", "v01": "function_worker:&partition_main"}
    for node, group in groups.items():
        written = f"content={{{{ hpcforge_machine.reason }}}} dest=/root/said_{node}"
        done = plain.ansible(blueprint, group, "-b", "-m", "copy", "-a", written)
        assert done.returncode == 0, done.stdout + done.stderr
        assert nodes.inside("n2" if node == "v01" else "n1", f"cat /root/said_{node}") == said
    (tmp_path / "deploy.py").write_text(
        "from io import StringIO\nfrom pyinfra import host\nfrom pyinfra.operations import files\n"
        "files.put(src=StringIO(host.data.hpcforge_machine['reason']), dest=f'/root/told_{host.name}', _sudo=True)\n"
    )
    done = plain.pyinfra(blueprint, tmp_path / "deploy.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert nodes.inside("n1", "cat /root/told_n1") == nodes.inside("n2", "cat /root/told_v01") == said


def test_ssh_clush_and_ansible_reach_nodes_behind_the_jump_host_by_printed_files(
    nodes: Nodes, machines: dict[str, Target], tmp_path: Path
) -> None:
    blueprint = plain.blueprint(tmp_path, nodes.lab, machines, "x")
    config = str(plain.inventory(blueprint, "--ssh-config", "ssh_config"))
    for name, host in {"n1": "n1", "v01": "n2", "v01.plain.example.org": "n2"}.items():
        done = plain.over_ssh(blueprint, "ssh", "-F", config, name, "hostname")
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{host}\n", "")
    groups = tmp_path / "groups.d"
    groups.mkdir()
    plain.inventory(blueprint, "--clustershell", "groups.d/site.yaml")
    (tmp_path / ".config" / "clustershell").mkdir(parents=True)
    (tmp_path / ".config" / "clustershell" / "groups.conf").write_text(
        f"[Main]\ndefault: function\nautodir: {groups}\n"
    )
    done = plain.over_ssh(blueprint, "clush", "-o", f"-F {config}", "-w", "@worker,@head", "hostname")
    assert sorted(done.stdout.splitlines()) == ["n1: n1", "v01: n2"], done.stderr
    hosts = str(plain.inventory(blueprint, "--ansible", "hosts.yml"))
    done = plain.over_ssh(blueprint, "ansible", "-i", hosts, "function_worker", "-m", "ping")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "v01 | SUCCESS" in done.stdout


def test_pdsh_and_rsync_reach_nodes_behind_the_jump_host_by_printed_files(
    nodes: Nodes, machines: dict[str, Target], tmp_path: Path
) -> None:
    blueprint = plain.blueprint(tmp_path, nodes.lab, machines, "x")
    config = str(plain.inventory(blueprint, "--ssh-config", "ssh_config"))
    genders = str(plain.inventory(blueprint, "--genders", "genders"))
    pdsh = ["env", f"PDSH_SSH_ARGS=-F {config}", "pdsh", "-R", "ssh", "-F", genders]
    for query, lines in {"worker": ["v01: n2"], "worker||head": ["n1: n1", "v01: n2"]}.items():
        done = plain.over_ssh(blueprint, *pdsh, "-g", query, "hostname")
        assert (sorted(done.stdout.splitlines()), done.stderr) == (lines, "")
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "a file").write_text("by rsync")
    nodes.inside("n2", "apt-get install -y -q --no-install-recommends rsync")
    words = ["rsync", "-a", "-e", f"ssh -F {config}", "--rsync-path=sudo rsync"]
    done = plain.over_ssh(blueprint, *words, f"{tmp_path}/sent/", "v01:/root/via_rsync/")
    assert (done.returncode, done.stderr) == (0, "")
    assert nodes.inside("n2", "cat '/root/via_rsync/a file'") == "by rsync"


@pytest.mark.parametrize("wrong", ["n1", "v01"])
def test_plain_ansible_and_plain_pyinfra_refuse_a_host_key_that_is_not_known(
    wrong: str, nodes: Nodes, machines: dict[str, Target], tmp_path: Path
) -> None:
    [other] = [machine for name, machine in machines.items() if name != wrong]
    false = machines | {wrong: replace(machines[wrong], host_keys=other.host_keys)}
    blueprint = plain.blueprint(tmp_path, nodes.lab, false, "x")
    done = plain.ansible(blueprint, "v01", "-m", "ping")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "UNREACHABLE" in done.stdout + done.stderr
    (tmp_path / "deploy.py").write_text("from pyinfra.operations import server\nserver.shell('touch /tmp/got_in')\n")
    done = plain.pyinfra(blueprint, tmp_path / "deploy.py", "--limit", "v01")
    assert done.returncode != 0, done.stdout + done.stderr
    assert nodes.inside("n2", "ls /tmp/got_in || true") == ""


def test_keys_of_nodes_behind_it_can_be_asked_for(through: Engines, behind: list[Target]) -> None:
    assert through.run(HostKey("t", "v01")).data["stdout"] in behind[0].host_keys


def test_a_node_that_is_not_there_is_told_from_a_jump_host_that_is_not(
    nodes: Nodes, behind: list[Target], tmp_path: Path
) -> None:
    n1, gone = nodes.targets["n1"], replace(behind[0], name="gone", address=f"{BEHIND}.200")
    with Engines([gone, behind[1]], tmp_path / "one", tmp_path, via=n1) as engines:
        seen = finish(engines, Command("gone", "gone", ("true",)), Command("good", behind[1].name, ("true",)))
    assert (seen["gone"][-1].data["reason"], seen["good"][-1].data["ok"]) == ("no-route", True)
    assert "gone" in seen["gone"][-1].data["error"]
    away = replace(n1, name="bastion", address=nodes.lab.gateway.rsplit(".", 1)[0] + ".250")
    with Engines(behind, tmp_path / "two", tmp_path, via=away) as engines:
        seen = finish(engines, *(Command(target.name, target.name, ("true",)) for target in behind))
    for events in seen.values():
        assert events[-1].data["reason"] == "via"
        assert "bastion" in events[-1].data["error"]


def test_a_jump_host_with_another_key_is_refused(nodes: Nodes, behind: list[Target], tmp_path: Path) -> None:
    false = replace(nodes.targets["n1"], host_keys=nodes.targets["n2"].host_keys)
    role = tmp_path / "role"
    (role / "tasks").mkdir(parents=True)
    (role / "tasks" / "main.yml").write_text("- name: nothing\n  ping:\n")
    with Engines(behind, tmp_path / "work", tmp_path, via=false) as engines:
        seen = finish(engines, Command("c", "v01", ("true",)), HostKey("k", "v02"), Ansible("a", "v03", role, {}, 60.0))
    for task, events in seen.items():
        assert events[-1].data["reason"] == "via", (task, events[-1].data)


def test_a_jump_host_that_may_not_pass_on_says_so(nodes: Nodes, behind: list[Target], tmp_path: Path) -> None:
    never = "/etc/ssh/sshd_config.d/test_never.conf"
    nodes.inside("n1", f"echo AllowTcpForwarding no >{never}; systemctl reload ssh")
    try:
        with Engines(behind, tmp_path, tmp_path, via=nodes.targets["n1"]) as engines:
            answer = engines.run(Command("t", "v01", ("true",))).data
        assert answer["reason"] == "via"
        assert "AllowTcpForwarding" in answer["error"]
    finally:
        nodes.inside("n1", f"rm {never}; systemctl reload ssh")
