"""The reason why Slurm ended a test's job, and the nodes at fault, by Slurm's records alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from hpcforge.slurm.job_end import JobEnd, accounted, cancelled_by, cause, parse, show
from hpcforge.verify.head import Head
from hpcforge.verify.heartbeat import SILENT_S
from hpcforge.verify.jobs import QUERY_S, describe, unusable
from hpcforge.verify.step_output import clean
from hpcforge.verify.submit import Launch

_SETTLES_S = 2.5  # the wait for a job to complete: until then its record may lack the end
_POLL_S = 0.3
_ACCOUNTING_S = 3.0  # for accounting, which may be away


@dataclass(frozen=True)
class JobEndReason:
    """The cause of a job's end, on one line, and the nodes at fault, if any, with state and reason."""

    number: str
    cause: str
    nodes: Mapping[str, str] = field(default_factory=dict)
    status: Literal["failed", "timed_out"] = "failed"

    @property
    def node(self) -> str | None:
        """The node at fault, if it is exactly one."""
        return next(iter(self.nodes)) if len(self.nodes) == 1 else None

    @property
    def next_command(self) -> str:
        """A command for the head that shows more."""
        return f"scontrol show node {self.node}" if self.node else f"scontrol show job {self.number}"

    @property
    def detail(self) -> str:
        """All of it on one line, to follow the name of the node if there is one."""
        reason = self.nodes[self.node] if self.node else describe(self.nodes)
        return "; ".join(part for part in (reason, self.cause) if part)


def end_of(
    head: Head, job: Launch, number: str, stay: Callable[[], None], *, in_prolog: bool = False
) -> JobEndReason | None:
    """Return why Slurm ended the job; None while it runs, or without a reason. `in_prolog`: its last known state."""
    ended = _record(head, number)
    waited_s = 0.0
    while ended is not None and not ended.final and waited_s < _SETTLES_S:
        head.pause(_POLL_S, stay)
        waited_s += _POLL_S
        ended = _record(head, number) or ended
    if ended is None or not ended.over:
        return None
    by = _canceller(head, number) if ended.state in ("CANCELLED", "COMPLETING") else ""
    ended = replace(ended, state="CANCELLED") if by else ended
    nodes = {} if by not in ("", "root") else _at_fault(head, job, ended)
    text = f"job {number} {clean(cause(ended))}" + (f", by {by}" if by else "")
    if in_prolog and nodes:
        text = f"the prolog of job {number} failed"
    if ended.state == "COMPLETED":
        text = f"job {number} ended itself: no sign of hpcforge for {SILENT_S} s"
    return JobEndReason(number, text, nodes, "timed_out" if ended.state in ("TIMEOUT", "DEADLINE") else "failed")


def _record(head: Head, number: str) -> JobEnd | None:
    return parse(head.run(show(number), timeout_s=QUERY_S).stdout)


def _canceller(head: Head, number: str) -> str:
    """Return the user who cancelled the job, by name; "" without accounting."""
    uid = cancelled_by(head.run(accounted(number), timeout_s=_ACCOUNTING_S).stdout)
    if uid is None:
        return ""
    return clean(head.run(["id", "-nu", str(uid)], timeout_s=QUERY_S).stdout, 64) or f"uid {uid}"


def _at_fault(head: Head, job: Launch, ended: JobEnd) -> dict[str, str]:
    """Return the nodes that Slurm took out of use during the job, if that can be the reason of its end."""
    if ended.state not in ("CANCELLED", "NODE_FAIL", "BOOT_FAIL", "COMPLETING", "FAILED"):
        return {}
    out = unusable(head, (node.name for node in job.nodes))
    away = {name: reason for name, reason in out.items() if reason.startswith(("down", "not responding"))}
    return away or out if ended.state in ("NODE_FAIL", "BOOT_FAIL") else out
