"""Ansible roles of a site, through ansible-runner: one play for all nodes that wait for the same role.

`Gathering` chooses the nodes of a play, `play` writes Ansible's input, and `hpcforge.engines.ansible_events` reads its
output; this module has the threads, processes and folders. It may import `hpcforge.engines`; ansible-runner is a
process, not an import. The content of a site's role does not belong here.
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
from dataclasses import dataclass
from pathlib import Path

from hpcforge.engines.ansible.play import Host, PlayRole, environment, read_role, refusal, write
from hpcforge.engines.ansible_events import NodeEvent, PlayListener
from hpcforge.engines.ansible_jump import JumpConnection, ends_with_us
from hpcforge.engines.host_keys import UnreachableError, host_keys, private_folder
from hpcforge.engines.node_output import split_lines
from hpcforge.engines.tasks import Ansible, Event, Target, result

# The choice of nodes for an Ansible play: nodes that wait for the same role, as many as memory allows. No own clock.
#
# A play costs a process of ansible-runner and one of ansible-playbook, and a worker for each of its nodes. One play for
# each node would take 150 MiB a node; so nodes are gathered, and nodes that arrive while plays run form the next one.
GATHER_S = 0.3  # nodes that arrive within this time share a play
PLAY_MIB = 150  # memory of a play, without workers: see docs/performance.md
WORKER_MIB = 25  # memory of a node in it: a worker, and its ssh
_MOST_WORKERS = 32  # more at once would only queue for the cores that write to them
_MOST_PLAYS = 2  # active plays on many nodes; meanwhile new nodes gather for the next one
_LONG_S = 60.0  # a longer play, for example with a hanging node, does not prevent the next one


@dataclass(frozen=True)
class WaitingTask:
    """A waiting task and the time of its arrival, by the monotonic clock."""

    task: Ansible
    target: Target
    since_s: float


@dataclass(frozen=True)
class _PlayKey:
    """The common values of a play's nodes. `alone`: the role needs a play for each node."""

    role: Path
    timeout_s: float
    alone: bool


class Play:
    """Nodes that run a role together; `left` are the unfinished ones, by name."""

    def __init__(self, nodes: list[WaitingTask], *, alone: bool, begun_s: float) -> None:
        self.left = {node.task.node: node for node in nodes}
        self.alone = alone
        self.begun_s = begun_s

    @property
    def nodes(self) -> list[WaitingTask]:
        """The unfinished nodes, in the order of their arrival."""
        return list(self.left.values())


class Gathering:
    """Waiting tasks and active plays. `memory_mib` limits all plays together; one node may always run."""

    def __init__(self, memory_mib: float) -> None:
        self._memory_mib = memory_mib
        self._waiting: dict[_PlayKey, list[WaitingTask]] = {}
        self._plays: list[Play] = []

    @property
    def waits(self) -> bool:
        """Whether any task waits."""
        return bool(self._waiting)

    def add(self, task: Ansible, target: Target, *, alone: bool, now_s: float) -> None:
        """Queue a node for a role."""
        key = _PlayKey(task.source, task.timeout_s, alone)
        self._waiting.setdefault(key, []).append(WaitingTask(task, target, now_s))

    def withdraw(self, task: str) -> bool:
        """Forget a waiting task; return False if it does not wait, or no longer."""
        for key, waiting in self._waiting.items():
            for node in waiting:
                if node.task.id == task:
                    self._take(key, [node])
                    return True
        return False

    def begin(self, now_s: float) -> Play | None:
        """Return the next play, in order of arrival, and count it as active. None while no play may begin."""
        busy = {node for play in self._plays for node in play.left}
        for key, waiting in self._waiting.items():
            if now_s - waiting[0].since_s < GATHER_S and not key.alone:
                continue
            free = {node.task.node: node for node in reversed(waiting) if node.task.node not in busy}  # each node once
            chosen = [node for node in waiting if free.get(node.task.node) is node][: self._room(key, now_s)]
            if chosen:
                self._take(key, chosen)
                play = Play(chosen, alone=key.alone, begun_s=now_s)
                self._plays.append(play)
                return play
        return None

    def over(self, play: Play) -> None:
        """Record that a play has ended, with all its processes."""
        self._plays.remove(play)

    def _room(self, key: _PlayKey, now_s: float) -> int:
        """Return the highest number of nodes for a play that begins now."""
        recent = [play for play in self._plays if not play.alone and now_s - play.begun_s < _LONG_S]
        if not key.alone and len(recent) >= _MOST_PLAYS:
            return 0
        taken_mib = sum(PLAY_MIB + WORKER_MIB * len(play.left) for play in self._plays)
        fit = int((self._memory_mib - taken_mib - PLAY_MIB) // WORKER_MIB)
        return min(max(fit, 0 if self._plays else 1), 1 if key.alone else _MOST_WORKERS)

    def _take(self, key: _PlayKey, chosen: list[WaitingTask]) -> None:
        remaining = [node for node in self._waiting[key] if node not in chosen]
        if remaining:
            self._waiting[key] = remaining
        else:
            del self._waiting[key]


_MOST_MIB = 2048
_UNKNOWN_MIB = 1024.0  # if the kernel does not report it
# Limit of a play's process: Ansible keeps all answers of a node; its own need is some 250 MiB (address space).
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
        """Queue a task; its last event is always the result."""
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
        """End all plays; `deadline` on the monotonic clock."""
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
        """Begin plays as nodes arrive and others end. Runs in a thread."""
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
            error = failure  # Python deletes `failure` at the end of this block
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
        """Return the play's hosts, with their proxies. Nodes behind an unreachable jump host get their results."""
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
    """Limit the memory of a process and of its future children: it has not started Ansible yet."""
    with contextlib.suppress(ProcessLookupError):  # it has ended, with its reason in the output
        resource.prlimit(process.pid, resource.RLIMIT_AS, (_PROCESS_BYTES, _PROCESS_BYTES))


def _not_started(task: Ansible, error: Exception) -> dict[str, object]:
    return result(error=f"{task.source.name}: Ansible could not be started for {task.node}: {error}")


def _memory_mib() -> float:
    """Return the memory of this host for all plays together: a quarter of the available memory."""
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
