"""Connections of nodes for Ansible, ssh and pyinfra: no value becomes a template, an option or another host."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from hpcforge.engines.inventories import (
    ansible_connection,
    ansible_file,
    ansible_inventory,
    pyinfra_connection,
    ssh_config,
    unsafe,
)
from hpcforge.engines.tasks import Target
from tests.support.ansible_inputs import HOSTILE, read_by_ansible


def test_ansible_renders_no_string_of_inputs() -> None:
    assert read_by_ansible(json.dumps(unsafe(HOSTILE))) == HOSTILE
    assert read_by_ansible('{"text": "{{ 7 * 6 }}"}') == {"text": {"rendered": "{{ 7 * 6 }}"}}  # what the mark is for


@pytest.mark.parametrize("key", ["__ansible_unsafe", "__ansible_vault"])
def test_a_key_that_ansible_takes_for_a_mark_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="cannot be a key"):
        unsafe({"deep": [{key: "{{ 7 * 6 }}"}]})


def test_a_script_says_hosts_and_groups() -> None:
    said = json.loads(ansible_inventory({"n1": {"x": "{{ 1+1 }}"}, "n2": {}}, {"function_head": ("n1",)}))
    assert said["_meta"]["hostvars"] == {"n1": {"x": {"__ansible_unsafe": "{{ 1+1 }}"}}, "n2": {}}
    assert {name: group["hosts"] for name, group in said.items() if name != "_meta"} == {
        "all": ["n1", "n2"],
        "function_head": ["n1"],
    }


HEAD = Target("head", "192.0.2.1", "ops", "sudo", Path("/k ey/%h"), ("ssh-ed25519 AAAA",))
NODE = Target("n1", "192.0.2.11", "ops", "sudo")


def test_a_file_of_ssh_goes_through_the_jump_host_and_reads_no_other_keys(tmp_path: Path) -> None:
    """As ssh itself reads it."""
    path = tmp_path / "ssh_config"
    path.write_text(ssh_config([HEAD, NODE], "example.org", Path("/a b/known_hosts"), via=HEAD))
    lines = {
        name: subprocess.run(["ssh", "-G", "-F", path, name], capture_output=True, text=True, check=True).stdout
        for name in ("head", "n1.example.org")
    }
    settings = {name: dict(line.partition(" ")[::2] for line in text.splitlines()) for name, text in lines.items()}
    node = settings["n1.example.org"]
    assert (node["hostname"], node["user"], node["proxyjump"]) == ("192.0.2.11", "ops", "head")
    assert (node["stricthostkeychecking"], node["globalknownhostsfile"]) == ("true", "/dev/null")
    assert (settings["head"]["identityfile"], settings["head"]["identitiesonly"]) == ("/k ey/%%h", "yes")
    assert "proxyjump" not in settings["head"]


def test_a_jump_host_that_is_no_node_has_a_block_of_its_own() -> None:
    text = ssh_config([NODE], "example.org", Path("/known_hosts"), via=HEAD)
    assert [line for line in text.splitlines() if line.startswith("Host ")] == ["Host head", "Host n1 n1.example.org"]


@pytest.mark.parametrize("target", [HEAD, NODE])
def test_connections_check_host_keys_and_read_no_settings(target: Target) -> None:
    ansible = ansible_connection(target, Path("/known_hosts"), "nc a 22")
    assert ansible["ansible_host_key_checking"] is True
    assert ("ansible_ssh_private_key_file" in ansible) == (target.key is not None)
    assert "ProxyCommand=nc a 22" in shlex.split(ansible["ansible_ssh_common_args"])
    pyinfra = pyinfra_connection(target, Path("/known_hosts"))
    assert (pyinfra["ssh_strict_host_key_checking"], pyinfra["ssh_config_file"]) == ("yes", "/dev/null")
    assert ("ssh_key" in pyinfra) == (target.key is not None)


def test_a_file_of_ansible_is_read_as_it_was_meant() -> None:
    plain = {"yes": "no", "serial": "0012", "day": "2027-01-01", "none": "~"}  # of which YAML would make other types
    texts = {"long": "ssh-rsa " + "A" * 400, "deep": [{"a b": HOSTILE["text"]}, 1, None, []]}
    text = ansible_file({"n1": {**plain, **texts}}, {"on": ["n1"]})
    assert max(map(len, text.replace("A" * 400, "").splitlines())) <= 160
    everything = read_by_ansible(text)["all"]
    assert everything["hosts"]["n1"] == {**{name: {"rendered": value} for name, value in plain.items()}, **texts}
    assert everything["children"] == {"on": {"hosts": {"n1": None}}}
