"""The end of a job, by Slurm's own records: `scontrol show job`, and sacct where there is accounting. Pure.

States and reasons are those of JOB STATE CODES and JOB REASON CODES in squeue(1). While a job completes, scontrol shows
COMPLETING in place of its state; the reason is there already.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FIELD = re.compile(r" (JobState|Reason|ExitCode|TimeLimit)=(\S+)")
_BY = re.compile(r"^CANCELLED by ([0-9]{1,10})$", re.MULTILINE)
_NOT_OVER = frozenset(("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "RESIZING", "REQUEUED"))
_STATE_OF_REASON = {"TimeLimit": "TIMEOUT", "NodeDown": "NODE_FAIL", "OutOfMemory": "OUT_OF_MEMORY"}
_CAUSES = {
    "BOOT_FAIL": "ended because a node did not boot",
    "CANCELLED": "was cancelled",
    "COMPLETED": "ended by itself",
    "COMPLETING": "was cancelled or preempted",
    "DEADLINE": "ended at its deadline",
    "FAILED": "ended with an error",
    "NODE_FAIL": "ended because a node failed",
    "OUT_OF_MEMORY": "used more memory than it had asked for",
    "PREEMPTED": "gave way to a job of higher priority",
}
# Limits that the job exceeds alone, so that it never starts, whatever other jobs do.
_NEVER = {
    "QOSNotAllowed",
    "InvalidQOS",
    "InvalidAccount",
    "AccountNotAllowed",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "BadConstraints",
}
# ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE; from Slurm 23.02 on ..._TOPO_CONFIG_... if the topology is the reason.
_UNPLACEABLE = ("Requested node configuration is not available", "Requested topology configuration is not available")


@dataclass(frozen=True)
class JobEnd:
    """A job's record. `code` is the exit status of its script and `signal` the signal that ended it; both 0: none."""

    state: str
    reason: str
    code: int = 0
    signal: int = 0
    time_limit: str = ""

    @property
    def over(self) -> bool:
        """True once the job no longer runs, nor will."""
        return self.state not in _NOT_OVER

    @property
    def final(self) -> bool:
        """True once the record says how it ended."""
        return self.state != "COMPLETING"

    @property
    def begun(self) -> bool:
        """False for a job that was cancelled before its script began."""
        return self.state != "CANCELLED" or bool(self.code or self.signal)


def show(number: str) -> list[str]:
    """Return the command for `parse`."""
    return ["scontrol", "--oneliner", "show", "job", number]


def parse(output: str) -> JobEnd | None:
    """Parse a job's record; None if that is not one."""
    fields: dict[str, str] = {}
    for match in _FIELD.finditer(output):  # the first of each: a comment, which comes later, may look like a field
        fields.setdefault(match[1], match[2])
    if not fields.keys() >= {"JobState", "Reason"}:
        return None
    state, reason = fields["JobState"], fields["Reason"]
    if state == "COMPLETING":
        state = _STATE_OF_REASON.get(reason, state)
    code, _, signal = fields.get("ExitCode", "0:0").partition(":")
    is_number = code.isdecimal() and signal.isdecimal()
    limit = fields.get("TimeLimit", "")
    return JobEnd(state, reason, int(code) if is_number else 0, int(signal) if is_number else 0, limit)


def accounted(number: str) -> list[str]:
    """Return the command for `cancelled_by`; it fails without accounting."""
    return ["sacct", "--noheader", "--parsable2", "--allocations", "--format=State", f"--jobs={number}"]


def cancelled_by(output: str) -> int | None:
    """Return the uid that cancelled the job, as accounting has it; slurmd does it as root. None: not known."""
    match = _BY.search(output)
    return int(match[1]) if match else None


def cause(ended: JobEnd) -> str:
    """Describe the end of the job, for use after its number, in Slurm's own words."""
    if ended.state == "TIMEOUT":
        alone = ended.reason in ("TimeLimit", "None")
        text = f"ran into its time limit of {ended.time_limit}" if alone else "ran into a limit of its account"
    else:
        text = _CAUSES.get(ended.state, "ended")
        text += "" if ended.begun else " before it began"
    words = [ended.state, *([ended.reason] if ended.reason != "None" else [])]
    return f"{text} (Slurm: {', '.join(words)})"


def is_unplaceable(words: str) -> bool:
    """Return whether Slurm reports, by a refusal or a reason, that no set of its nodes fits the job."""
    return words == "BadConstraints" or any(refusal in words for refusal in _UNPLACEABLE)


def never_starts(reason: str) -> bool:
    """Return whether a job with this reason waits forever, whatever other jobs do."""
    of_one_job = "PerJob" in reason or "PerNode" in reason
    limit = reason.startswith(("AssocMax", "AssocMin", "QOSMax"))
    return reason in _NEVER or reason.startswith("QOSMin") or (limit and of_one_job)
