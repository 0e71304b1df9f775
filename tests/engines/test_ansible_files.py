"""What Ansible is given: nothing in it can become a template, an option or another host."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge.engines.ansible import inventory_yaml, mentions_facts, playbook, refusal, unsafe_yaml
from hpcforge.engines.tasks import Ansible, Target

HOSTILE: dict[str, Any] = {
    "text": "{{ 7 * 6 }} {% raw %} # ' \" : - !vault | >",
    "odd": "\u2028\u2029\x85\x7f\t\n é \U0001f600 \x00",
    "deep": {"{{ key }}": ["{{ lookup('pipe', 'id') }}", 1, 2.5, True, None, {"a": "%}"}]},
    "yes": "yes",
    "number": "0640",
}


class _Loader(yaml.SafeLoader):
    pass


_Loader.add_constructor("!unsafe", lambda loader, node: ("unsafe", loader.construct_scalar(node)))


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    return ("unsafe", value) if isinstance(value, str) else value


def test_every_string_is_marked_unsafe_and_unchanged() -> None:
    assert yaml.load(unsafe_yaml(HOSTILE), Loader=_Loader) == _marked(HOSTILE)


def test_inventory_checks_host_keys_and_reads_nobodys_ssh_settings() -> None:
    target = Target("n1", "192.0.2.1", "ops", "sudo", Path("/k ey"), ("ssh-ed25519 AAAA",))
    hosts = yaml.load(inventory_yaml(target, Path("/a b/known_hosts")), Loader=_Loader)["all"]["hosts"]
    assert list(hosts) == ["n1"]
    assert hosts["n1"]["ansible_host_key_checking"] is True
    options = shlex.split(hosts["n1"]["ansible_ssh_common_args"][1])
    assert options[:2] == ["-F", "/dev/null"]
    assert "StrictHostKeyChecking=yes" in options
    assert 'UserKnownHostsFile="/a b/known_hosts"' in options
    assert "GlobalKnownHostsFile=/dev/null" in options


def test_playbook_is_one_play_of_one_role() -> None:
    assert json.loads(playbook("motd", facts=False)) == [
        {"hosts": "all", "gather_facts": False, "vars_files": ["inputs.yml"], "roles": [{"role": "motd"}]}
    ]


@pytest.fixture
def role(tmp_path: Path) -> Path:
    path = tmp_path / "site-role"
    (path / "tasks").mkdir(parents=True)
    (path / "tasks" / "main.yml").write_text("- ansible.builtin.debug: {msg: hello}\n")
    return path


def test_facts_are_gathered_only_for_who_uses_them(role: Path) -> None:
    assert not mentions_facts(role)
    (role / "templates").mkdir()
    (role / "templates" / "a.j2").write_text("{{ ansible_hostname }}")
    assert mentions_facts(role)


def test_a_role_that_can_run_is_not_refused(role: Path) -> None:
    assert refusal(Ansible("t", "n1", role, {"good_name": 1}, 60.0)) is None


@pytest.mark.parametrize("name", ["ansible_host", "ansible_become", "a b", "1a", "{{ x }}", ""])
def test_an_input_cannot_steer_ansible(role: Path, name: str) -> None:
    assert "cannot be an Ansible variable" in str(refusal(Ansible("t", "n1", role, {name: 1}, 60.0)))


def test_a_folder_without_tasks_is_no_role(tmp_path: Path) -> None:
    assert "no folder tasks/" in str(refusal(Ansible("t", "n1", tmp_path, {}, 60.0)))


def test_a_roles_name_is_never_a_template(tmp_path: Path) -> None:
    assert "rename the folder" in str(refusal(Ansible("t", "n1", tmp_path / "{{ x }}", {}, 60.0)))
