"""The owner of a test job, in the job's comment: for the next hpcforge, and for the job itself, which ends with its
owner.

No file system is shared, and a worker cannot see the operator host. Head, workers and every operator do see Slurm's
record of the job, so the comment is a heartbeat: the owner writes it every `BEAT_S`, and the batch script ends the job
if it has not changed for `SILENT_S` (decision 18). Time is the head's since its boot, as for the lease. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpcforge.slurm.jobs import Column, read, shown

BEAT_S = 10.0
POLL_S = 5  # between two reads by the job
SILENT_S = 40  # of silence, which shows a dead owner: less than the wait of another run's test for its nodes

# The stamp is appended to the last argument, which is or ends with the comment.
_STAMP = "$(cut -c-8 /proc/sys/kernel/random/boot_id).$(cut -d. -f1 /proc/uptime)"
_STAMPED = f'stamp=" alive={_STAMP}"; exec "$@$stamp"'
_COLUMNS: tuple[Column, ...] = ("number", "state", "nodes", "comment")
_LISTED = (
    f'echo "{_STAMP}"; '
    'exec squeue --noheader --user="$1" --states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING '
    f'--format="{shown(_COLUMNS)}"'
)
_NOT_IN_NAMES = re.compile(r"[^\w.@-]", re.ASCII)
_COMMENT = re.compile(
    r"hpcforge run=([0-9a-f]{1,64}) by=([\w.@-]{1,100}) process=([0-9a-f]{16})\.([0-9]{1,10})\.([0-9]{1,20})"
    r" alive=([0-9a-f]{8})\.([0-9]{1,12})",
    re.ASCII,
)
_NUMBER, _NODES = re.compile("[0-9]{1,12}"), re.compile(r"[a-z0-9.,\[\]-]*+")
_MOMENT = re.compile(r"([0-9a-f]{8})\.([0-9]{1,12})", re.ASCII)


@dataclass(frozen=True)
class Owner:
    """A run of hpcforge. `process` identifies it on its machine: `where` (a digest), `pid`, `started`."""

    run_id: str
    who: str  # user@host
    process: Mapping[str, Any]

    def comment(self) -> str:
        """Return the comment of its jobs, without the stamp."""
        user = _NOT_IN_NAMES.sub("_", self.who)[:100] or "_"
        process = f"{self.process['where']}.{self.process['pid']}.{self.process['started']}"
        return f"hpcforge run={self.run_id} by={user} process={process}"


@dataclass(frozen=True)
class OwnedJob:
    """A test job in the queue, and its owner by its comment."""

    number: str
    completing: bool
    nodes: str  # hostlist; "" before it has any
    owner: Owner
    silent_s: float  # since the last sign of life of its owner

    def sentence(self) -> str:
        """Return `job 12 on w[01-03], a smoke test of ada@login1`."""
        return f"job {self.number}{f' on {self.nodes}' if self.nodes else ''}, a smoke test of {self.owner.who}"


def stamped(*argv: str) -> list[str]:
    """Return a command for the head that adds the present moment to its last argument, after an owner's comment."""
    return ["sh", "-c", _STAMPED, "sh", *argv]


def list_command(user: str) -> tuple[str, ...]:
    """Return the command that lists a user's jobs for `parse_owned`, with the head's present moment."""
    return ("sh", "-c", _LISTED, "sh", user)


def parse_owned(output: str) -> tuple[OwnedJob, ...]:
    """Parse the test jobs among a user's jobs, from the output of `list_command`.

    A job with any other comment is that user's own. A sign of life from before the head's boot is as old as the boot.
    """
    first, _, lines = output.partition("\n")
    moment = _MOMENT.fullmatch(first)
    if moment is None:
        return ()
    jobs = []
    for job in read(lines, _COLUMNS):
        comment = _COMMENT.fullmatch(job.comment)
        if comment is None or not _NUMBER.fullmatch(job.number) or not _NODES.fullmatch(job.nodes):
            continue
        run_id, user, host_digest, pid, started, boot, alive_s = comment.groups()
        owner = Owner(run_id, user, {"where": host_digest, "pid": int(pid), "started": int(started)})
        up_s = float(moment[2])
        silent_s = max(0.0, up_s - float(alive_s)) if boot == moment[1] else up_s
        jobs.append(OwnedJob(job.number, job.state == "COMPLETING", job.nodes, owner, silent_s))
    return tuple(jobs)
