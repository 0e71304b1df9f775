"""Which jobs run where, as Slurm says it."""

from __future__ import annotations

from hpcforge.blueprint import hostlist

SLURM_JOBS = "slurm_jobs"  # the name under which the controller is asked
SLURM_JOBS_COMMAND = ("squeue", "--noheader", "--states=RUNNING,SUSPENDED,COMPLETING,CONFIGURING", "--format=%A|%N")


def parse_jobs(output: str) -> dict[str, tuple[str, ...]]:
    """Ids of the jobs on each node that has some, from the output of `SLURM_JOBS_COMMAND`; skips other lines."""
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        job, bar, names = line.strip().partition("|")
        if not (bar and job.isdigit() and names):
            continue
        try:
            nodes = hostlist.expand(names)
        except hostlist.HostlistError:
            continue
        for node in nodes:
            found.setdefault(node, []).append(job)
    return {node: tuple(jobs) for node, jobs in found.items()}
