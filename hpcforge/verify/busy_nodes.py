"""Which nodes users' jobs hold, so that no test can start there."""

from __future__ import annotations

from collections.abc import Iterable

from hpcforge.slurm.jobs import Column, read, squeue
from hpcforge.verify.head import Head
from hpcforge.verify.jobs import QUERY_S
from hpcforge.verify.step_output import clean
from hpcforge.verify.submit import JOB_NAME

_HOLDER: tuple[Column, ...] = ("number", "user", "name", "nodes")


def busy(head: Head, names: Iterable[str], run_as: str) -> dict[str, str]:
    """The nodes among these on which users' jobs run, each with one of them: "job 20, ada's train".

    All of them if Slurm does not list its jobs. `run_as` is the account of test jobs, which are no user's; other users
    may use their names.

    Tests take whole nodes, so one job of any size is enough. A job that only completes is waited for.
    """
    wanted = set(names)
    answer = head.run(squeue(_HOLDER, "RUNNING,SUSPENDED,CONFIGURING"), timeout_s=QUERY_S)
    if answer.rc != 0:
        why = clean(answer.stderr or answer.stdout) or "no answer"
        return dict.fromkeys(sorted(wanted), f"a job that squeue may not list: {why}")
    found: dict[str, str] = {}
    for job in read(answer.stdout, _HOLDER):
        if not (job.user == run_as and job.name.startswith(JOB_NAME)):
            for node in job.holds:
                if node in wanted:
                    found.setdefault(node, clean(f"job {job.number}, {job.user}'s {job.name}"))
    return found
