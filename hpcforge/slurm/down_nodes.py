"""Workers that take no job although no operator holds them, with time and reason in Slurm.

A suspect may be healthy: it is named only if a cause is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hpcforge.slurm.jobs import Column, read, squeue
from hpcforge.slurm.nodes import drained, faulty, held, parse_slurm_nodes, reason_setters, responding

SLURM_REQUESTS = "slurm_requests"  # name of the question which daemons answer a worker
FIRST_LIMIT_S, SECOND_LIMIT_S = 3.0, 5.0  # limits for an answer of a daemon: a suspect is asked twice
# One request each, 3 ms of CPU time: a stopped process still accepts connections.
_REQUESTS = (
    "command -v scontrol >/dev/null || exit 1; "
    '{ timeout "$1" scontrol ping 2>/dev/null | grep -q "is UP" || echo slurmctld; } & '
    '{ timeout "$1" scontrol show slurmd >/dev/null 2>&1 || echo slurmd; } & wait'
)
# scontrol contacts the slurmd that this variable names if Slurm is built for several slurmds on a node, as Debian's is;
# otherwise the slurmd of this node (config_info.c of Slurm).
_SLURMD_REQUESTS = (
    "command -v scontrol >/dev/null || exit 1; limit=$1; shift; "
    'for n; do { SLURMD_NODENAME=$n timeout "$limit" scontrol show slurmd >/dev/null 2>&1 || echo "$n"; } & done; wait'
)
COMPLETING = "completing"  # a state, and the name of the question for jobs in it
_ENDED: tuple[Column, ...] = ("nodes", "ends")
_LONG_S = 90  # of KillWait, 30 s, and UnkillableStepTimeout, 150 s: the cause is useful before slurmd gives up
COMPLETING_COMMAND = (  # begins with the time that long ago
    "sh", "-c", f"date -d '-{_LONG_S} seconds' +%FT%T && exec \"$@\"", "sh", *squeue(_ENDED, "COMPLETING"),
)  # fmt: skip
_NOT_RESPONDING = "not responding"
_NO_SLURMCTLD, _NO_SLURMD = "not reaching slurmctld", "not answering Slurm's requests"
_NO_PORT = "not reachable for slurmctld"
_SUSPECT = (_NOT_RESPONDING, COMPLETING, _NO_SLURMCTLD, _NO_SLURMD, _NO_PORT)
_STATES = (("INVAL", "invalid"), ("DOWN", "down"), ("ERROR", "in error"))  # Slurm's words for states, and hpcforge's


@dataclass(frozen=True)
class DownWorker:
    """A worker that takes no job, and the causes of that as far as they are known."""

    node: str
    state: str  # "down", "not responding", "drained" ...; "": the head, if Slurm lists no nodes
    reason: str = ""  # reason in Slurm
    since: str = ""  # by the head's clock, "2026-11-28 10:02"; "": not known
    causes: tuple[str, ...] = ()  # each a sentence with the node's name
    checked: str = ""  # the checks without a result, if there is no cause

    @property
    def suspect(self) -> bool:
        """Return whether it may be healthy: a job's end, or a daemon that is slow for a moment, has this state, too."""
        return self.state in _SUSPECT

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
    suspects: Mapping[str, str] | None = None,
) -> tuple[DownWorker, ...]:
    """Return those of `names` that take no job, in their order.

    `slurm_nodes` is the output of `SLURM_NODES_COMMAND`. `silent`: why the head cannot connect to a worker's slurmd.
    `refusing`: workers whose slurmd has another number for slurmctld's account: Slurm has them as idle, then as not
    responding, in turns. `registered`: workers that Slurm's list has to have; before its first apply it lacks a worker.
    `suspects`: states by worker, of `suspect_states`.
    """
    states, setters = parse_slurm_nodes(slurm_nodes), reason_setters(slurm_nodes)
    workers = []
    for name in names if states else ():
        if name not in states:
            workers += [DownWorker(name, "not in Slurm's list of nodes")] if name in registered else []
            continue
        state, reason = states[name]
        account, since = setters.get(name, ("", ""))
        if faulty(state, reason, by_slurm=account == slurm_account):
            workers.append(DownWorker(name, _word(state), reason, since if reason else ""))
        elif name in refusing and not held(state):
            workers.append(DownWorker(name, "refusing slurmctld's requests"))
        elif name in silent and not held(state):
            workers.append(DownWorker(name, _NO_PORT, silent[name]))
        elif suspects and name in suspects and not held(state):
            workers.append(DownWorker(name, suspects[name]))
    return tuple(workers)


def suspect_states(completing: str, requests: Mapping[str, str]) -> dict[str, str]:
    """Return the states of suspects, by worker.

    `completing` is the output of `COMPLETING_COMMAND`, `requests` that of `slurm_requests`, by worker.
    """
    silent = {name: {*output.split()} for name, output in requests.items()}
    return dict.fromkeys(_completing_long(completing), COMPLETING) | {
        name: _NO_SLURMD if "slurmd" in daemons else _NO_SLURMCTLD for name, daemons in silent.items() if daemons
    }


def still_suspect(worker: DownWorker, slurm_nodes: str) -> bool:
    """Return whether a later output of `SLURM_NODES_COMMAND` has a suspect in the same state."""
    state, _ = parse_slurm_nodes(slurm_nodes).get(worker.node, ("", ""))
    return not responding(state) if worker.state == _NOT_RESPONDING else worker.state.upper() in state


def slurm_requests(limit_s: float) -> list[str]:
    """Return the worker's command that prints which of `slurmctld` and `slurmd` do not answer a request."""
    return ["sh", "-c", _REQUESTS, "sh", f"{limit_s:g}"]


def slurmd_requests(names: Sequence[str], limit_s: float) -> list[str]:
    """Return the controller's command that prints those of these workers whose slurmd does not answer a request."""
    return ["sh", "-c", _SLURMD_REQUESTS, "sh", f"{limit_s:g}", *names]


def _completing_long(output: str) -> set[str]:
    since, _, jobs = output.partition("\n")  # "Unknown" sorts after every time
    return {node for job in read(jobs, _ENDED) if "" < job.ends < since for node in job.holds}


def _word(state: str) -> str:
    for part, word in _STATES:
        if part in state.upper():
            return word
    if drained(state):
        return "drained"
    return "not registered" if responding(state) else _NOT_RESPONDING
