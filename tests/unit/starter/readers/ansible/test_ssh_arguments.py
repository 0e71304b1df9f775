"""The jump host in arguments of ssh, and what else they have."""

from __future__ import annotations

import pytest

from hpcforge.starter.readers.ansible.ssh_arguments import JumpHost, destination, jump_of, proxy_command

VIAS = {
    "-J ada@10.0.0.1": ("ada@10.0.0.1", ""),
    "-Jgate.hpc.org": ("gate.hpc.org", ""),
    "-o ProxyJump=ada@10.0.0.1:22": ("ada@10.0.0.1", ""),
    "-oProxyJump=10.0.0.1:2222": ("10.0.0.1", "another port"),
    "-o 'ProxyCommand ssh -W %h:%p ada@10.0.0.1'": ("ada@10.0.0.1", ""),
    '-C -o ControlPersist=60s -o ProxyCommand="ssh ada@10.0.0.1 -W %h:%p"': ("ada@10.0.0.1", "-C ControlPersist"),
    "-o ProxyCommand='ssh -i ~/k -p 2222 -l ada -o StrictHostKeyChecking=no -W %h:%p g1'": ("ada@g1", "another port"),
    "-o ProxyCommand=none": (None, ""),
    "-J a,b": (None, "several jump hosts"),
    "-o ProxyCommand='ssh -J a -W %h:%p b'": (None, "several jump hosts"),
    "-o ProxyCommand='nc -X 5 -x 10.0.0.1 %h %p'": (None, "runs 'nc'"),
    "-o ProxyCommand='ssh ada@10.0.0.1 nc %h 22'": (None, "a ProxyCommand other than"),
    '-o ProxyCommand="ssh {{ ansible_user }}@{{ proxy }} -W %h:%p"': (None, "template"),
    "-J 'x y@10.0.0.1'": (None, "does not accept"),
    "-J 'open": (None, "cannot be read"),
    "-i ~/k": (None, "-i"),
}


@pytest.mark.parametrize("arguments", VIAS)
def test_a_jump_host_becomes_the_way_in_and_no_command_is_run(arguments: str) -> None:
    via, problem = VIAS[arguments]
    jump = jump_of(arguments)
    assert jump.via == via
    assert problem in " ".join(jump.problems)
    assert bool(jump.problems) == bool(problem)


def test_endless_arguments_are_not_read() -> None:
    assert jump_of("-J " + "a" * 1_000_000) == JumpHost(problems=("more than 20000 characters",))
    assert proxy_command("ssh -W %h:%p " + "a" * 1_000_000).via is None


def test_a_proxy_command_is_read_alone() -> None:
    assert proxy_command("ssh -W %h:%p ada@10.0.0.1") == JumpHost("ada@10.0.0.1")
    assert proxy_command("{{ command }}").via is None
    assert "cannot be read" in proxy_command("ssh 'x").problems[0]
    assert "runs ''" in proxy_command("").problems[0]


def test_a_destination_has_an_account_and_a_host() -> None:
    assert destination("ssh://ada@Gate.hpc.org:22/") == JumpHost("ada@gate.hpc.org")
    assert destination("-oProxyCommand=x").via is None
