"""Workers that take no job although no operator holds them: since when, and why as Slurm has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hpcforge.slurm.nodes import drained, faulty, held, parse_slurm_nodes, reason_setters, responding

_STATES = (("INVAL", "invalid"), ("DOWN", "down"), ("ERROR", "in error"))  # state words of Slurm and ours


@dataclass(frozen=True)
class DownWorker:
    """A worker that takes no job, and the causes of that as far as they are known."""

    node: str
    state: str  # "down", "not responding", "drained" ...; "": the head, whose Slurm lists no nodes
    reason: str = ""  # Slurm's
    since: str = ""  # by the head's clock, "2026-11-28 10:02"; "": not known
    causes: tuple[str, ...] = ()  # each a sentence with the node's name
    checked: str = ""  # what showed nothing, where there is no cause

    @property
    def summary(self) -> str:
        """The state, since when, and Slurm's reason."""
        if not self.state:
            return ""
        since = f" since {self.since}" if self.since else ""
        return f"{self.node} is {self.state}{since}" + (f" ({self.reason})" if self.reason else "")

    @property
    def explanation(self) -> str:
        """The causes, or what was checked."""
        causes = [cause for cause in self.causes if cause != self.reason]
        if self.causes or not self.checked:
            return "; ".join(causes)
        return f"no cause found: {self.checked}"

    @property
    def sentence(self) -> str:
        """All of it in a line."""
        return ": ".join(filter(None, (self.summary, self.explanation)))


def down_workers(
    names: Collection[str],
    slurm_nodes: str,
    silent: Mapping[str, str],
    slurm_account: str = "slurm",
    *,
    registered: Collection[str] = (),
    refusing: Collection[str] = (),
) -> tuple[DownWorker, ...]:
    """Return those of `names` that take no job, in their order.

    `slurm_nodes` is the output of `SLURM_NODES_COMMAND`. `silent`: why the head cannot connect to a worker's slurmd.
    `refusing`: workers whose slurmd has another number for slurmctld's account: Slurm has them as idle, then as not
    responding, in turns. `registered`: workers that Slurm's list has to have; before its first apply it lacks a worker.
    """
    states, setters = parse_slurm_nodes(slurm_nodes), reason_setters(slurm_nodes)
    found = []
    for name in names if states else ():
        if name not in states:
            found += [DownWorker(name, "not in Slurm's list of nodes")] if name in registered else []
            continue
        state, reason = states[name]
        account, since = setters.get(name, ("", ""))
        if faulty(state, reason, by_slurm=account == slurm_account):
            found.append(DownWorker(name, _word(state), reason, since if reason else ""))
        elif name in refusing and not held(state):
            found.append(DownWorker(name, "refusing slurmctld's requests"))
        elif name in silent and not held(state):
            found.append(DownWorker(name, "not reachable for slurmctld", silent[name]))
    return tuple(found)


def _word(state: str) -> str:
    """A state in words."""
    for part, word in _STATES:
        if part in state.upper():
            return word
    if drained(state):
        return "drained"
    return "not registered" if responding(state) else "not responding"
