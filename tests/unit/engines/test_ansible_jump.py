"""Ansible's ssh to nodes and through the jump host, as ssh itself reads it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.engines.ansible_jump import JumpConnection, destination, ends_with_us, proxy_command, ssh_words
from hpcforge.engines.host_keys import UnreachableError
from hpcforge.engines.tasks import Target
from hpcforge.host import processes

GATE = Target("gate", "192.0.2.1", "keeper", "none", Path("/my key"), ("ssh-ed25519 AAAA",))


def settings(words: list[str]) -> dict[str, str]:
    """What ssh makes of a command line."""
    result = subprocess.run([*words, "-G", "192.0.2.9"], capture_output=True, text=True, check=True)
    return dict(
        reversed([line.split(" ", 1) for line in result.stdout.splitlines() if " " in line])
    )  # the first counts


@pytest.mark.parametrize("own", [True, False])
def test_only_keys_of_the_inventory_count_and_nobody_is_asked(own: bool, tmp_path: Path) -> None:
    key = tmp_path / "my key"
    key.touch(mode=0o600)
    options = settings(ssh_words(replace(GATE, key=key if own else None), Path("/a b/known_hosts")))
    assert options["stricthostkeychecking"] == "true"
    assert options["userknownhostsfile"] == "/a b/known_hosts"
    assert options["globalknownhostsfile"] == "/dev/null"
    assert (options["batchmode"], options["updatehostkeys"]) == ("yes", "false")
    assert options["identitiesonly"] == ("yes" if own else "no")
    assert (options["identityfile"] == str(key)) == own


def test_a_node_is_reached_through_the_jump_host() -> None:
    words = ssh_words(GATE, Path("/a%b/known_hosts"))
    command = proxy_command(words, GATE)
    assert settings(["ssh", "-F", "/dev/null", "-o", f"ProxyCommand={command}"])["proxycommand"] == command
    assert shlex.split(command.replace("%%", "%"))[-3:] == ["-W", "%h:%p", "keeper@192.0.2.1"]
    assert shlex.split(command.replace("%%", "%"))[: len(words)] == words
    assert destination(GATE) == "keeper@192.0.2.1"


def test_a_jump_host_without_a_host_key_is_not_connected_to() -> None:
    jump = JumpConnection(replace(GATE, host_keys=()))
    with pytest.raises(UnreachableError):
        jump.proxy_command()
    jump.close()


def test_a_program_ends_when_its_parent_is_gone() -> None:
    command = ends_with_us([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"])
    script = f"""
import os, subprocess
process = subprocess.Popen({command!r}, stdout=subprocess.PIPE, text=True)
process.stdout.readline()
print(process.pid, flush=True)
os._exit(0)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert processes.wait_until(lambda: not processes.arguments(int(result.stdout)), 20.0)
