"""Which nodes an Ansible play takes: those that wait for the same role, as many as memory allows. No clock of its own.

A play costs a process of ansible-runner and one of ansible-playbook, and a worker for each of its nodes. As many plays
as nodes would be 150 MiB a node; so nodes are gathered, and those that come while plays run form the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcforge.engines.tasks import Ansible, Target

GATHER_S = 0.3  # nodes that come so shortly after one another are of one play
PLAY_MIB = 150  # of a play, without workers: see docs/performance.md
WORKER_MIB = 25  # of a node in it: a worker, and its ssh
_MOST_WORKERS = 32  # more at once would only queue for the cores that write to them
_MOST_PLAYS = 2  # that are at work on many nodes; while they are, those that come gather for the next
_LONG_S = 60.0  # a play that takes longer, as one does with a node that hangs, keeps no other from beginning


@dataclass(frozen=True)
class WaitingTask:
    """A task and since when, by the monotonic clock, it waits."""

    task: Ansible
    target: Target
    since_s: float


@dataclass(frozen=True)
class _PlayKey:
    """What nodes of one play have in common. `alone`: the role is one that has to have a play for each."""

    role: Path
    timeout_s: float
    alone: bool


class Play:
    """Nodes that run a role together; `left` are those of them, by name, that have not ended."""

    def __init__(self, nodes: list[WaitingTask], *, alone: bool, begun_s: float) -> None:
        self.left = {node.task.node: node for node in nodes}
        self.alone = alone
        self.begun_s = begun_s

    @property
    def nodes(self) -> list[WaitingTask]:
        """Those that have not ended, in the order in which they came."""
        return list(self.left.values())


class Gathering:
    """Tasks that wait, and plays at work. `memory_mib` is what all plays together may take; one node always may."""

    def __init__(self, memory_mib: float) -> None:
        self._memory_mib = memory_mib
        self._waiting: dict[_PlayKey, list[WaitingTask]] = {}
        self._plays: list[Play] = []

    @property
    def waits(self) -> bool:
        """Whether any task waits."""
        return bool(self._waiting)

    def add(self, task: Ansible, target: Target, *, alone: bool, now_s: float) -> None:
        """A node's turn for a role has come."""
        alike = _PlayKey(task.source, task.timeout_s, alone)
        self._waiting.setdefault(alike, []).append(WaitingTask(task, target, now_s))

    def withdraw(self, task: str) -> bool:
        """Forget a task that waits; False: it does not wait, or no longer."""
        for alike, waiting in self._waiting.items():
            for node in waiting:
                if node.task.id == task:
                    self._take(alike, [node])
                    return True
        return False

    def begin(self, now_s: float) -> Play | None:
        """The next play, which counts as at work from now on; None while none may begin. Who came first goes first."""
        busy = {node for play in self._plays for node in play.left}
        for alike, waiting in self._waiting.items():
            if now_s - waiting[0].since_s < GATHER_S and not alike.alone:
                continue
            free = {node.task.node: node for node in reversed(waiting) if node.task.node not in busy}  # a node once
            chosen = [node for node in waiting if free.get(node.task.node) is node][: self._room(alike, now_s)]
            if chosen:
                self._take(alike, chosen)
                play = Play(chosen, alone=alike.alone, begun_s=now_s)
                self._plays.append(play)
                return play
        return None

    def over(self, play: Play) -> None:
        """A play has ended, with all its processes."""
        self._plays.remove(play)

    def _room(self, alike: _PlayKey, now_s: float) -> int:
        """How many nodes a play that begins now may take."""
        recent = [play for play in self._plays if not play.alone and now_s - play.begun_s < _LONG_S]
        if not alike.alone and len(recent) >= _MOST_PLAYS:
            return 0
        taken_mib = sum(PLAY_MIB + WORKER_MIB * len(play.left) for play in self._plays)
        fit = int((self._memory_mib - taken_mib - PLAY_MIB) // WORKER_MIB)
        return min(max(fit, 0 if self._plays else 1), 1 if alike.alone else _MOST_WORKERS)

    def _take(self, alike: _PlayKey, chosen: list[WaitingTask]) -> None:
        left = [node for node in self._waiting[alike] if node not in chosen]
        if left:
            self._waiting[alike] = left
        else:
            del self._waiting[alike]
