"""The files of an Ansible play: inventory, playbook, settings and environment, made from nothing.

Inputs reach the role as variables of its host, in a file that is removed afterwards. Every string is marked unsafe:
braces in values stay literal, and nothing appears on a command line. The operator's own Ansible settings, plugins and
ssh configuration are not used.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcforge.engines.ansible_events import DONE
from hpcforge.engines.ansible_jump import ends_with_us
from hpcforge.engines.commands import PROGRAMS
from hpcforge.engines.host_keys import known_hosts
from hpcforge.engines.inventories import ansible_connection, unsafe
from hpcforge.engines.tasks import Ansible, Target

_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_VARIABLE = re.compile(r"(?!ansible_)[A-Za-z_][A-Za-z0-9_]*")
_FACTS = re.compile(r"\bansible_[a-z]")  # a role with such a word needs facts, which cost a second
# words that affect a play as a whole, or run once for all nodes: such a role gets a play for each node
_ALONE = re.compile(
    r"\b(?:end_play|end_batch|clear_host_errors|refresh_inventory|run_once|any_errors_fatal|add_host|group_by|pause"
    r"|hostvars|ansible_play_\w+|play_hosts)\b|\bgroups\s*[.\[]"
)
# words with which a role may continue after a failure, here or in another role
_MENDS = re.compile(r"\b(?:rescue|always|ignore_unreachable|include_role|import_role|dependencies)\b")
# the poll interval of ansible-playbook for its workers; its default is a thousand polls a second
_CONFIG = """\
[defaults]
timeout = 30
remote_tmp = $HOME/.ansible/tmp
retry_files_enabled = False
interpreter_python = /usr/bin/python3
forks = {forks}
internal_poll_interval = 0.01
[ssh_connection]
pipelining = True
control_path_dir = {sockets}
ssh_args = -o StrictHostKeyChecking=yes -o ControlMaster=auto -o ControlPersist=30s
"""
# Ansible has no setting for the umask: modules run with that of the login, or of sudo's PAM session.
_SHELL = "hpcforge_sh"
_SHELL_PLUGIN = f'''\
DOCUMENTATION = """
name: {_SHELL}
short_description: POSIX shell, with umask 022 for each module
description: What a role writes can be read as on any other node.
extends_documentation_fragment: shell_common
"""

from ansible.plugins.shell.sh import ShellModule as PosixShell


class ShellModule(PosixShell):
    def build_module_command(self, env_string, shebang, cmd, arg_path=None):
        return "umask 022 && " + super().build_module_command(env_string, shebang, cmd, arg_path)
'''
_SETTINGS = {"pexpect_timeout": 0.2, "suppress_env_files": True}  # the first limits the delay until an end is noticed


@dataclass(frozen=True)
class Host:
    """A node of a play; `proxy` is a command to it."""

    task: Ansible
    target: Target
    proxy: str | None = None


@dataclass(frozen=True)
class PlayRole:
    """Features in a role's files: facts, words that affect the whole play (`alone`), rescue of failures (`mends`)."""

    facts: bool
    alone: bool
    mends: bool


def read_role(folder: Path) -> PlayRole:
    """Scan a role's files. Raises `OSError`."""
    files = (path for path in folder.rglob("*") if path.suffix in {".yml", ".yaml", ".j2"} and path.is_file())
    texts = [path.read_text(errors="replace") for path in files]
    return PlayRole(*(any(map(words.search, texts)) for words in (_FACTS, _ALONE, _MENDS)))


def refusal(task: Ansible) -> str | None:
    """Return the reason why Ansible cannot run a task, or None."""
    if not _ROLE.fullmatch(task.source.name) or ":" in str(task.source):
        return f"{task.source}: Ansible takes role names of letters, digits, '_', '-' and '.' only: rename the folder"
    if not (task.source / "tasks").is_dir():
        return f"{task.source} is not an Ansible role: it has no folder tasks/"
    bad = [name for name in task.inputs if not _VARIABLE.fullmatch(name)]
    if bad:
        return (
            f"{task.source.name}: {bad[0]!r} cannot be an Ansible variable (ansible_... is reserved): rename the input"
        )
    return None


def inventory(hosts: Sequence[Host], known_hosts_file: Path) -> str:
    """Return an Ansible inventory that works as root on its nodes; each has its own inputs."""
    return json.dumps(
        {"all": {"hosts": {host.task.node: unsafe(_variables(host, known_hosts_file)) for host in hosts}}}
    )


def _variables(host: Host, known_hosts_file: Path) -> dict[str, Any]:
    become = {
        "ansible_become": host.target.become == "sudo",
        "ansible_become_method": "sudo",
        "ansible_become_user": "root",
        "ansible_shell_type": _SHELL,
    }
    return {**host.task.inputs, **ansible_connection(host.target, known_hosts_file, host.proxy), **become}


def playbook(role: str, *, facts: bool, alone: bool = False) -> str:
    """Return a play of one role as JSON, which is YAML without manual quoting.

    Each node continues at its own pace (`free`), and the last task reports the end, handlers included.
    """
    play = {
        "name": f"Role {role}",
        "hosts": "all",
        "strategy": "linear" if alone else "free",
        "gather_facts": facts,
        "environment": {"PATH": PROGRAMS},
        "roles": [{"role": role}],
        "post_tasks": [{"name": DONE, "ansible.builtin.debug": {"msg": ""}}],
    }
    return json.dumps([play], indent=2) + "\n"


def write(folder: Path, hosts: Sequence[Host], role: PlayRole, sockets: Path) -> None:
    """Write everything to a private folder. Raises `OSError`, and `ValueError` for an invalid input."""
    task = hosts[0].task
    files = {
        "known_hosts": known_hosts(host.target for host in hosts),
        "project/site.yml": playbook(task.source.name, facts=role.facts, alone=role.alone),
        f"project/shell_plugins/{_SHELL}.py": _SHELL_PLUGIN,  # beside the playbook, where Ansible finds it
        "inventory/hosts.json": inventory(hosts, folder / "known_hosts"),
        "env/settings": json.dumps({**_SETTINGS, "job_timeout": max(1, round(task.timeout_s))}),
        "ansible.cfg": _CONFIG.format(sockets=sockets, forks=len(hosts)),
    }
    ours = Path(sys.executable).parent / "ansible-playbook"
    files["bin/ansible-playbook"] = f'#!/bin/sh\nexec {shlex.join(ends_with_us([str(ours)]))} "$@"\n'
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "bin/ansible-playbook").chmod(0o700)


def environment(folder: Path, task: Ansible, artifacts: Path) -> dict[str, str]:
    """Return the environment of a play whose files are in `folder`; collections of its role are below `artifacts`."""
    made = {
        "PATH": f"{folder}/bin:{Path(sys.executable).parent}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(task.source.parent.absolute()),
    }
    if task.collections:  # only the pinned ones, not the operator's
        made["ANSIBLE_COLLECTIONS_PATH"] = ":".join(str(artifacts / collection) for collection in task.collections)
        made["ANSIBLE_COLLECTIONS_SCAN_SYS_PATH"] = "False"
    agent = os.environ.get("SSH_AUTH_SOCK")
    return made | ({"SSH_AUTH_SOCK": agent} if agent else {})
