"""Ansible roles that a site already has, through ansible-runner: one play for the nodes that wait for the same role.

`ansible_gather` chooses the nodes of a play, `ansible_play` writes Ansible's input, and `ansible_events` reads its
output. This module has the threads, processes and folders.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hpcforge.engines.ansible_batches import GATHER_S, Gathering, Play
from hpcforge.engines.ansible_events import NodeEvent, PlayListener
from hpcforge.engines.ansible_jump import JumpConnection, ends_with_us
from hpcforge.engines.ansible_play import Host, PlayRole, environment, read_role, refusal, write
from hpcforge.engines.host_keys import UnreachableError, host_keys
from hpcforge.engines.node_output import split_lines
from hpcforge.engines.private_folders import private_folder
from hpcforge.engines.tasks import Ansible, Event, Target, result

_MOST_MIB = 2048
_UNKNOWN_MIB = 1024.0  # where the kernel does not say
# Of a process of a play, since Ansible keeps all that a node answers: its own need some 250 MiB (address space).
_PROCESS_BYTES = 1 << 30


class Playbooks:
    """Runs Ansible tasks in plays, each in a thread that waits for its process. `put` receives the events."""

    def __init__(
        self, work_dir: Path, put: Callable[[Event], None], artifacts: Path, via: Target | None = None
    ) -> None:
        self._work_dir = work_dir
        self._artifacts = artifacts
        self._via = via
        self._jump = JumpConnection(via) if via else None
        self._put = put
        self._roles: dict[Path, PlayRole] = {}
        self._changed = threading.Condition()  # holds what follows
        self._gathering: Gathering | None = None
        self._running: dict[threading.Thread, subprocess.Popen[bytes] | None] = {}
        self._closed = False

    def start(self, task: Ansible, target: Target) -> None:
        """Begin, when it is its turn; the last event is the result, whatever happens."""
        try:
            host_keys(target)
            refused = refusal(task)
            if refused is None:
                self._wait(task, target)
                return
            data = result(error=refused)
        except UnreachableError as error:
            data = result(error=str(error), reason=error.reason)
        except OSError as error:
            data = _not_started(task, error)
        self._put(Event(task.node, task.id, "result", data))

    def withdraw(self, task: str) -> bool:
        """Cancel a task that is not in a play yet; False if it is, or is unknown."""
        with self._changed:
            return self._gathering is not None and self._gathering.withdraw(task)

    def close(self, deadline: float) -> None:
        """End what runs; `deadline` on the monotonic clock."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
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

    def _wait(self, task: Ansible, target: Target) -> None:
        if task.source not in self._roles:
            self._roles[task.source] = read_role(task.source)
        alone = self._roles[task.source].alone
        with self._changed:
            if self._gathering is None:
                self._gathering = Gathering(_memory_mib())
                dispatcher = threading.Thread(target=self._dispatch, args=(self._gathering,), daemon=True)
                dispatcher.start()
            self._put(Event(task.node, task.id, "progress", {"role": task.source.name, "detail": "waiting for a play"}))
            self._gathering.add(task, target, alone=alone, now_s=time.monotonic())
            self._changed.notify_all()

    def _dispatch(self, gathering: Gathering) -> None:
        """In a thread: begin plays as nodes come and others end."""
        with self._changed:
            while not self._closed:
                play = gathering.begin(time.monotonic())
                if play is None:
                    self._changed.wait(GATHER_S / 2 if gathering.waits else None)
                    continue
                thread = threading.Thread(target=self._guarded, args=(play, gathering), daemon=True, name="ansible")
                self._running[thread] = None
                thread.start()

    def _guarded(self, play: Play, gathering: Gathering) -> None:
        role = self._roles[play.nodes[0].task.source]
        hearing = PlayListener({node.task.node: node.task for node in play.nodes}, mends=role.mends)
        try:
            self._run(play, role, hearing)
        except (OSError, ValueError) as failure:
            error = failure  # which Python forgets at the end of this
            self._say(play, hearing.lost(lambda task: _not_started(task, error)))
        finally:
            with self._changed:
                gathering.over(play)
                del self._running[threading.current_thread()]
                self._changed.notify_all()

    def _say(self, play: Play, events: Iterable[NodeEvent]) -> None:
        """Pass on events of nodes; a node with a result makes room for others."""
        for node, kind, data in events:
            task = play.left[node].task
            if kind == "result":
                with self._changed:
                    del play.left[node]
                    self._changed.notify_all()
            self._put(Event(node, task.id, kind, data))

    def _run(self, play: Play, role: PlayRole, hearing: PlayListener) -> None:
        # control sockets have paths of at most 108 bytes, so they live in a folder with a short one
        with _within(self._work_dir) as folder, private_folder() as sockets:
            hosts = self._ways(play, hearing)
            if not hosts:
                return
            write(folder, hosts, role, sockets)
            command = [sys.executable, "-P", "-m", "ansible_runner", "run", str(folder), "-p", "site.yml", "--json"]
            with self._changed:
                if self._closed:
                    return
                process = subprocess.Popen(
                    ends_with_us(command),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env=environment(folder, hosts[0].task, self._artifacts),
                    start_new_session=True,
                )
                self._running[threading.current_thread()] = process
            _limit_memory(process)
            assert process.stdout is not None
            output = process.stdout.fileno()
            try:
                with process.stdout:
                    for line in split_lines(iter(lambda: os.read(output, 65536), b"")):
                        self._say(play, hearing.line(line))
                rc = process.wait()
            finally:
                process.kill()
                _close_connections(sockets)
        self._say(play, hearing.over(rc))

    def _ways(self, play: Play, hearing: PlayListener) -> list[Host]:
        """How to each node of a play; those behind a jump host that cannot be reached have their results."""
        via = self._via.address if self._via else None
        behind = [node for node in play.nodes if via is not None and node.target.address != via]
        proxy = None
        if behind and self._jump is not None:
            try:
                proxy = self._jump.proxy_command()
            except UnreachableError as error:
                unreachable = result(error=str(error), reason=error.reason)
                self._say(play, hearing.lost(lambda _: unreachable, [node.task.node for node in behind]))
        return [Host(node.task, node.target, proxy if node in behind else None) for node in play.nodes]


def _limit_memory(process: subprocess.Popen[bytes]) -> None:
    """Limit the memory of a process, and of each that it starts from now on: it has yet to start Ansible."""
    with contextlib.suppress(ProcessLookupError):  # it has ended, and says why
        resource.prlimit(process.pid, resource.RLIMIT_AS, (_PROCESS_BYTES, _PROCESS_BYTES))


def _not_started(task: Ansible, error: Exception) -> dict[str, object]:
    return result(error=f"{task.source.name}: Ansible could not be started for {task.node}: {error}")


def _memory_mib() -> float:
    """What all plays together may take of this host: a quarter of what it has to spare."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        spare = next(float(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return _UNKNOWN_MIB
    return min(_MOST_MIB, spare / 4)


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
