"""Ansible roles that a site already has, through ansible-runner, each in a process and a folder of its own.

Inputs reach the role as variables in a file that is removed afterwards, every string marked unsafe, so that a brace
in a value is a brace on the node and nothing appears on a command line. The environment is made from nothing: the
operator's own Ansible settings, plugins and ssh configuration have no say.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from hpcforge.engines.ansible_jump import Jump, ends_with_us
from hpcforge.engines.hostkeys import UnreachableError, host_keys, known_hosts
from hpcforge.engines.inventories import ansible_connection, unsafe
from hpcforge.engines.lines import Tail, last_line, split_lines
from hpcforge.engines.private import private_folder
from hpcforge.engines.tasks import Ansible, Event, Target, result

_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_VARIABLE = re.compile(r"(?!ansible_)[A-Za-z_][A-Za-z0-9_]*")
_FACTS = re.compile(r"\bansible_[a-z]")  # a role that mentions one needs them gathered, which costs a second
_CONFIG = """\
[defaults]
retry_files_enabled = False
interpreter_python = /usr/bin/python3
[ssh_connection]
pipelining = True
control_path_dir = {sockets}
ssh_args = -o StrictHostKeyChecking=yes -o ControlMaster=auto -o ControlPersist=30s
"""
_SETTINGS = {"pexpect_timeout": 0.2, "suppress_env_files": True}  # the first bounds how long an end takes to be heard
_REASONS = {  # what OpenSSH says: our word for it
    "Host key verification failed": "host-key",
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "host-key",
    "Permission denied": "login",
    "No route to host": "no-route",
    "Connection refused": "refused",
    "Connection timed out": "timeout",
}


def inventory(target: Target, known_hosts_file: Path, proxy: str | None = None) -> str:
    """An Ansible inventory of one node, on which all is done as root; `proxy` is a command to it."""
    become = {
        "ansible_become": target.become == "sudo",
        "ansible_become_method": "sudo",
        "ansible_become_user": "root",
    }
    variables = {**ansible_connection(target, known_hosts_file, proxy), **become}
    return json.dumps({"all": {"hosts": {target.name: unsafe(variables)}}})


def playbook(role: str, facts: bool) -> str:
    """A play of one role; JSON, which is YAML in which nothing needs quoting by hand."""
    return json.dumps(
        [{"hosts": "all", "gather_facts": facts, "vars_files": ["inputs.json"], "roles": [{"role": role}]}]
    )


def refusal(task: Ansible) -> str | None:
    """Why a task cannot be handed to Ansible; None if it can."""
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


def mentions_facts(role: Path) -> bool:
    """Whether a role uses what Ansible gathers from a node first."""
    files = (path for path in role.rglob("*") if path.suffix in {".yml", ".yaml", ".j2"} and path.is_file())
    return any(_FACTS.search(path.read_text(errors="replace")) for path in files)


@dataclass
class _Seen:
    """What a run's events amounted to."""

    changed: bool = False
    failures: list[str] = field(default_factory=list)
    unreachable: str | None = None
    output: Tail = field(default_factory=Tail)


class Playbooks:
    """Runs Ansible tasks, each in a thread that waits for its process. `put` receives the events."""

    def __init__(self, work_dir: Path, put: Callable[[Event], None], via: Target | None = None) -> None:
        self._work_dir = work_dir
        self._via = via
        self._jump = Jump(via) if via else None
        self._put = put
        self._running: dict[threading.Thread, subprocess.Popen[bytes] | None] = {}
        self._closed = False

    def start(self, task: Ansible, target: Target) -> None:
        """Begin; the last event is the result, whatever happens."""
        thread = threading.Thread(target=self._guarded, args=(task, target), daemon=True, name=f"ansible-{task.id}")
        self._running[thread] = None
        thread.start()

    def close(self, deadline: float) -> None:
        """End what runs; `deadline` on the monotonic clock."""
        self._closed = True
        running = dict(self._running)
        for process in running.values():
            if process is not None:
                process.terminate()  # ansible-runner passes it on to ansible-playbook's process group
        for thread, process in running.items():
            thread.join(max(0.1, deadline - time.monotonic()))
            if thread.is_alive() and process is not None:
                process.kill()
                thread.join(0.3)
        if self._jump is not None:
            self._jump.close()

    def _guarded(self, task: Ansible, target: Target) -> None:
        try:
            host_keys(target)
            refused = refusal(task)
            data = result(error=refused) if refused else self._run(task, target)
        except UnreachableError as error:
            data = result(error=str(error), reason=error.reason)
        except (OSError, ValueError) as error:
            data = result(error=f"{task.source.name}: Ansible could not be started for {target.name}: {error}")
        self._put(Event(task.node, task.id, "result", data))
        del self._running[threading.current_thread()]

    def _run(self, task: Ansible, target: Target) -> dict[str, Any]:
        # control sockets have paths of at most 108 bytes, so they live in a folder with a short one
        with _within(self._work_dir) as folder, private_folder() as sockets:
            through = self._jump is not None and self._via is not None and target.address != self._via.address
            proxy = self._jump.proxy_command() if self._jump is not None and through else None
            _write(folder, task, target, sockets, proxy)
            command = [sys.executable, "-P", "-m", "ansible_runner", "run", str(folder), "-p", "site.yml", "--json"]
            process = subprocess.Popen(
                ends_with_us(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=_environment(folder, task.source.parent),
                start_new_session=True,
            )
            self._running[threading.current_thread()] = process
            try:
                assert process.stdout is not None
                seen = self._follow(task, process.stdout)
                rc = process.wait()
            finally:
                process.kill()
                _close_connections(sockets)
        return self._result(task, rc, seen)

    def _follow(self, task: Ansible, stdout: IO[bytes]) -> _Seen:
        seen = _Seen()
        with stdout:
            for line in split_lines(iter(lambda: os.read(stdout.fileno(), 65536), b"")):
                event = _event(line)
                if event is None:
                    seen.output.add(line)
                    continue
                for kind, data in _translate(task.source.name, event, seen):
                    self._put(Event(task.node, task.id, kind, data))
        return seen

    def _result(self, task: Ansible, rc: int, seen: _Seen) -> dict[str, Any]:
        where = f"{task.source.name} on {task.node}"
        error = None
        if seen.unreachable is not None:
            reason = next((word for text, word in _REASONS.items() if text in seen.unreachable), "link")
            return result(rc=rc, error=f"{where}: {seen.unreachable}", reason=reason, changed=seen.changed)
        if rc == 254 and not seen.failures:
            error = f"{where}: not done within {task.timeout_s:g} s: stopped here, it may still be at work there"
        elif rc != 0:
            detail = seen.failures[-1] if seen.failures else last_line(seen.output.text()) or f"exit status {rc}"
            error = f"{where}: {detail}"
        return result(ok=rc == 0, rc=rc, stdout=seen.output.text(), error=error, changed=seen.changed)


def _event(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event_data"), dict) else None


def _translate(role: str, event: dict[str, Any], seen: _Seen) -> Iterator[tuple[str, dict[str, Any]]]:
    """ansible-runner's events as ours. Only a task's name, whether it changed and its message leave here."""
    data = event["event_data"]
    name = str(data.get("task") or data.get("name") or "")
    answer = data.get("res") if isinstance(data.get("res"), dict) else {}
    message = str(answer.get("stderr") or answer.get("msg") or "no message")[:2000]
    match event.get("event"):
        case "playbook_on_task_start":
            yield "progress", {"role": role, "detail": name}
        case "runner_on_ok" if answer.get("changed") is True:
            seen.changed = True
            yield "changed", {"role": role, "kind": "opaque", "name": name, "detail": ""}
        case "runner_on_failed" if not data.get("ignore_errors"):
            seen.failures.append(f"{name}: {last_line(message)}")
            yield "failed", {"role": role, "kind": "opaque", "name": name, "error": message}
        case "runner_on_unreachable":
            seen.unreachable = last_line(str(answer.get("msg")))


def _write(folder: Path, task: Ansible, target: Target, sockets: Path, proxy: str | None) -> None:
    files = {
        "known_hosts": known_hosts([target]),
        "project/site.yml": playbook(task.source.name, mentions_facts(task.source)),
        "project/inputs.json": json.dumps(unsafe(task.inputs)),
        "inventory/hosts.json": inventory(target, folder / "known_hosts", proxy),
        "env/settings": json.dumps({**_SETTINGS, "job_timeout": max(1, round(task.timeout_s))}),
        "ansible.cfg": _CONFIG.format(sockets=sockets),
    }
    ours = Path(sys.executable).parent / "ansible-playbook"
    files["bin/ansible-playbook"] = f'#!/bin/sh\nexec {shlex.join(ends_with_us([str(ours)]))} "$@"\n'
    for name, text in files.items():  # the folder is 0700 from its beginning
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (folder / "bin/ansible-playbook").chmod(0o700)


def _environment(folder: Path, roles: Path) -> dict[str, str]:
    environment = {
        "PATH": f"{folder}/bin:{Path(sys.executable).parent}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(roles.absolute()),
    }
    agent = os.environ.get("SSH_AUTH_SOCK")
    return environment | ({"SSH_AUTH_SOCK": agent} if agent else {})


@contextlib.contextmanager
def _within(parent: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hpcforge-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _close_connections(sockets: Path) -> None:
    """End ssh's shared connections, which would stay for another half minute."""
    for path in sockets.iterdir():
        command = ["ssh", "-F", "/dev/null", "-O", "exit", "-o", f"ControlPath={path}", "node"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=5)
