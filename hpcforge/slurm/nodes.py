"""Nodes in the output of scontrol and sinfo, and the states in which Slurm starts no job there.

States are those of NODE STATE CODES in sinfo(1). scontrol prints a base state and flags, `IDLE+DRAIN+NOT_RESPONDING`;
sinfo one word, and a character for further flags, `drained*`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hpcforge.slurm.jobs import rows

# Time for a slurmd to register, seconds: after its own start; after one ping of slurmctld (SlurmdTimeout/3 = 40 s), or
# two if a busy machine missed one.
SETTLE_S = 90.0

# All fields of scontrol are 800 bytes a node, and an answer is limited to 4 MiB: with these three 10,000 nodes fit.
_FIELDS = (
    '{ state = match($0, / State=[^ ]+/) ? substr($0, RSTART, RLENGTH) : ""; '
    'reason = match($0, / Reason=.*/) ? substr($0, RSTART, RLENGTH) : ""; print $1 state reason }'
)
SLURM_NODES_COMMAND = (
    "sh", "-c", 'all=$(scontrol --oneliner show node) && printf "%s\\n" "$all" | awk "$1"', "sh", _FIELDS,
)  # fmt: skip
_NAME = re.compile(r"NodeName=(\S+) ")
_STATE = re.compile(r" State=(\S+)")
# User and time of a reason, as 22.05 and 24.11 print them: ` Reason=Not responding [slurm@2026-11-28T10:02:41]`.
_SETTER = re.compile(r" \[([^\s@\[\]]{1,64})@(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[^\s\[\]]{0,16}\]")

_DRAINED = ("DRAIN", "DRAINED", "DRAINING")  # a user drained it, and must resume it
_NOT_REGISTERED = ("DOWN", "INVAL", "INVALID_REG", "NOT_RESPONDING", "UNKNOWN")  # also while slurmd restarts
_KEPT_BACK = (  # Slurm keeps these back, or a reservation does
    "ERROR", "FAIL", "FAILING", "FUTURE", "MAINT", "MAINTENANCE",
    "POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "REBOOT", "REBOOT_ISSUED",
)  # fmt: skip
_HELD = tuple(word for word in _KEPT_BACK if word != "ERROR")  # held by an operator or by power saving
OWN_DRAINS = "hpcforge"  # prefix of reasons of hpcforge's drains, also by its node health check
# Prefixes of reasons that Slurm itself sets, 22.05 to 26.05. slurmd and slurmstepd set theirs as root, like many
# operators; slurmctld's are included for a slurmctld that runs as root.
SLURM_DRAINS = (
    "SlurmdSpoolDir is full",  # slurmd's cred_context.c (22.05: slurmd.c), slurmstepd's mgr.c
    "switch_g_job_postfini failed",  # slurmstepd's mgr.c
    "Kill task failed", "Job step not running",  # slurmstepd's step_terminate_monitor.c, words of slurm_errno.c
    "Failed to set node feature",  # slurmd's req.c
    "Low RealMemory", "Low CPUs", "Low socket*core", "Low TmpDisk", "CoreSpec differ", "RestrictedCoresPerGPU",
    "Could not unpack gres data", "Reported active features", "Failed to parse dynamic_conf", "Failed to set topology",
    "Prolog error", "Job env setup error", "Node unexpectedly rebooted",  # this and the two lines above: node_mgr.c
    "gres/",  # gres.c
    "Prolog/Epilog failure", "Duplicate jobid",  # agent.c
    "Epilog error",  # job_mgr.c
    "batch job complete failure",  # proc_req.c
    "Bad core count",  # cons_tres
    "Not responding",  # ping_nodes.c
    "ResumeTimeout reached", "reboot timed out",  # power_save.c
    "NO NETWORK ADDRESS FOUND",  # read_config.c
)  # fmt: skip
_UNUSABLE = frozenset((*_DRAINED, *_NOT_REGISTERED, *_KEPT_BACK))
# Marks that sinfo appends. `@` (a requested restart) and `-` (planned for a job) leave the node in use.
_MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINT",
    "^": "REBOOT_ISSUED",
    "@": "REBOOT_REQUESTED",
    "-": "PLANNED",
}


def _words(state: str) -> set[str]:
    """Return the base state and flags of either spelling, in capitals."""
    words = set()
    for word in state.upper().split("+"):
        base = word.rstrip("".join(_MARKS))
        words |= {base, *(_MARKS[mark] for mark in word[len(base) :])}
    return words


def usable(state: str) -> bool:
    """Return whether Slurm starts jobs on a node in this state."""
    return _UNUSABLE.isdisjoint(_words(state))


def drained(state: str) -> bool:
    """Return whether an operator or Slurm has drained the node: running jobs continue, no other begins."""
    return not _words(state).isdisjoint(_DRAINED)


def responding(state: str) -> bool:
    """Return whether slurmctld gets answers from the node's daemon."""
    return "NOT_RESPONDING" not in _words(state)


def reserved(state: str) -> bool:
    """Return whether a reservation holds the node for its own jobs."""
    return "RESERVED" in _words(state)


def held(state: str) -> bool:
    """Return whether a drain, maintenance, a restart or power saving keeps jobs away: the daemon may be silent."""
    return not _words(state).isdisjoint((*_HELD, *_DRAINED))


def faulty(state: str, reason: str, *, by_slurm: bool) -> bool:
    """Return whether a node takes no job although no operator decided so: Slurm lost it, refused it or drained it.

    `by_slurm`: slurmctld's account set the reason. DOWN is always faulty: an operator drains.
    """
    words = _words(state)
    if not words.isdisjoint(_HELD):
        return False
    if not words.isdisjoint(_DRAINED):
        return by_slurm or reason.startswith((OWN_DRAINS, *SLURM_DRAINS))
    return not words.isdisjoint((*_NOT_REGISTERED, "ERROR"))


def down(state: str) -> bool:
    """Return whether no job can run there at all."""
    return "DOWN" in _words(state)


def registering(state: str) -> bool:
    """Return whether the node's daemon has not registered yet, as after its restart."""
    return not _words(state).isdisjoint(_NOT_REGISTERED)


def parse_slurm_nodes(output: str) -> dict[str, tuple[str, str]]:
    """Return state (flags joined by +) and reason by node, from the output of `SLURM_NODES_COMMAND`; skip the rest."""
    nodes = {}
    for line in output.splitlines():
        name, state = _NAME.match(line), _STATE.search(line)
        if name and state:
            nodes[name[1]] = (state[1], _reason(line))
    return nodes


def _reason(line: str) -> str:
    """Return the text of the reason, without user and time: ` Reason=disk is bad [root@2026-11-20T10:00:00]`."""
    reason = line.partition(" Reason=")[2].rstrip()
    text, _, by = reason.rpartition(" [")
    return text if by.endswith("]") and "@" in by and " " not in by else reason


def reason_setters(output: str) -> dict[str, tuple[str, str]]:
    """Return the account that set the reason of each node, and when (`2026-11-28 10:02`), from the same output."""
    setters = {}
    for line in output.splitlines():
        name, marks = _NAME.match(line), _SETTER.findall(line.partition(" Reason=")[2])
        if name and marks:
            account, date, clock = marks[-1]
            setters[name[1]] = (account, f"{date} {clock}")
    return setters


def parse_sinfo(output: str) -> dict[str, tuple[str, str]]:
    """Return state and reason by node, from the output of `commands.list_nodes`; skip other lines."""
    records = rows(output, ("node", "state", "reason"))
    return {row["node"]: (row["state"], "" if row["reason"] == "none" else row["reason"]) for row in records}


def not_scheduled(slurm_nodes: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the nodes that get no jobs at present, with state and reason."""
    return {
        node: f"{state.lower()}: {reason}" if reason else state.lower()
        for node, (state, reason) in slurm_nodes.items()
        if not usable(state)
    }
