"""What Ansible is given: nothing in it can become a template, an option or another host."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.engines.ansible.play import Host, PlayRole, environment, inventory, playbook, read_role, refusal
from hpcforge.engines.ansible_events import DONE
from hpcforge.engines.tasks import Ansible, Target
from tests.support.ansible_inputs import HOSTILE, read_by_ansible


def test_inventory_checks_host_keys_and_reads_nobodys_ssh_settings() -> None:
    target = Target("n1", "192.0.2.1", "ops", "sudo", Path("/k ey"), ("ssh-ed25519 AAAA",))
    task = Ansible("t", "n1", Path("motd"), {}, 60.0)
    hosts = json.loads(inventory([Host(task, target)], Path("/a b/known_hosts")))["all"]["hosts"]
    assert list(hosts) == ["n1"]
    assert hosts["n1"]["ansible_host_key_checking"] is True
    options = shlex.split(hosts["n1"]["ansible_ssh_common_args"]["__ansible_unsafe"])
    assert options[:2] == ["-F", "/dev/null"]
    assert "StrictHostKeyChecking=yes" in options
    assert 'UserKnownHostsFile="/a b/known_hosts"' in options
    assert "GlobalKnownHostsFile=/dev/null" in options


def test_each_node_has_its_own_inputs_as_they_are_and_no_input_is_a_way_in() -> None:
    def host(name: str, **inputs: Any) -> Host:
        target = Target(name, "192.0.2.1", "ops", "sudo", None, ("ssh-ed25519 AAAA",))
        return Host(Ansible(name, name, Path("motd"), inputs, 60.0), target)

    text = inventory([host("n1", **HOSTILE), host("n2", text="{{ text }}")], Path("/known_hosts"))
    hosts = read_by_ansible(text)["all"]["hosts"]
    assert {name: value for name, value in hosts["n1"].items() if not name.startswith("ansible_")} == HOSTILE
    assert {name: value for name, value in hosts["n2"].items() if not name.startswith("ansible_")} == {
        "text": "{{ text }}"
    }
    assert hosts["n1"]["ansible_host"] == "192.0.2.1"


def test_playbook_is_one_play_of_one_role() -> None:
    [play] = json.loads(playbook("motd", facts=False))
    [told] = play.pop("post_tasks")
    assert play.pop("environment")["PATH"].endswith(":/usr/sbin:/usr/bin:/sbin:/bin")  # sudo's own may lack them
    assert play == {
        "name": "Role motd", "hosts": "all", "strategy": "free", "gather_facts": False, "roles": [{"role": "motd"}]
    }  # fmt: skip
    assert told["name"] == DONE
    assert json.loads(playbook("motd", facts=False, alone=True))[0]["strategy"] == "linear"


@pytest.fixture
def role(tmp_path: Path) -> Path:
    path = tmp_path / "site-role"
    (path / "tasks").mkdir(parents=True)
    (path / "tasks" / "main.yml").write_text("- ansible.builtin.debug: {msg: hello}\n")
    return path


def test_facts_are_gathered_only_for_who_uses_them(role: Path) -> None:
    assert not read_role(role).facts
    (role / "templates").mkdir()
    (role / "templates" / "a.j2").write_text("{{ ansible_hostname }}")
    assert read_role(role).facts


@pytest.mark.parametrize(
    ("text", "alone", "mends"),
    [
        ("- ansible.builtin.meta: end_host", False, False),
        ("- ansible.builtin.user: {name: a, groups: video}", False, False),
        ("- ansible.builtin.meta: end_play", True, False),
        ("- ansible.builtin.pause: {seconds: 1}", True, False),
        ("- ansible.builtin.debug: {msg: '{{ groups.all }}'}", True, False),
        ("- ansible.builtin.command: id\n  run_once: true", True, False),
        ("- block: [{ansible.builtin.fail: }]\n  rescue: [{ansible.builtin.debug: }]", False, True),
        ("- ansible.builtin.include_role: {name: other}", False, True),
    ],
)
def test_what_a_role_does_to_its_play_is_seen(role: Path, text: str, alone: bool, mends: bool) -> None:
    assert read_role(role) == PlayRole(False, False, False)
    (role / "tasks" / "more.yaml").write_text(text)
    assert read_role(role) == PlayRole(False, alone, mends)


def test_a_role_that_can_run_is_not_refused(role: Path) -> None:
    assert refusal(Ansible("t", "n1", role, {"good_name": 1}, 60.0)) is None


@pytest.mark.parametrize("name", ["ansible_host", "ansible_become", "a b", "1a", "{{ x }}", ""])
def test_an_input_cannot_steer_ansible(role: Path, name: str) -> None:
    assert "cannot be an Ansible variable" in str(refusal(Ansible("t", "n1", role, {name: 1}, 60.0)))


def test_a_folder_without_tasks_is_no_role(tmp_path: Path) -> None:
    assert "no folder tasks/" in str(refusal(Ansible("t", "n1", tmp_path, {}, 60.0)))


def test_a_roles_name_is_never_a_template(tmp_path: Path) -> None:
    assert "rename the folder" in str(refusal(Ansible("t", "n1", tmp_path / "{{ x }}", {}, 60.0)))


def test_a_role_with_collections_finds_no_others() -> None:
    task = Ansible("t", "n1", Path("/roles/db"), {}, 60.0, ("aa.unpacked/x.y", "bb.unpacked/x.z"))
    made = environment(Path("/run"), task, Path("/kept"))
    assert made["ANSIBLE_COLLECTIONS_PATH"] == "/kept/aa.unpacked/x.y:/kept/bb.unpacked/x.z"
    assert made["ANSIBLE_COLLECTIONS_SCAN_SYS_PATH"] == "False"
    without = environment(Path("/run"), replace(task, collections=()), Path("/kept"))
    assert not [name for name in without if "COLLECTIONS" in name]
