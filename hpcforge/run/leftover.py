"""Leftover test jobs: those of dead runs are cancelled, those of active runs are named.

Reads only jobs of the tests' user, and of those only the comment with the owner (`verify.owner`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Command, Engine
from hpcforge.run.records.lease import ended
from hpcforge.slurm.commands import cancel_jobs
from hpcforge.slurm.jobs import SLURM_JOBS, SLURM_WAITING
from hpcforge.verify.heartbeat import SILENT_S, OwnedJob, list_command, parse_owned

SLURM_TESTS = "slurm_tests"  # the name of the controller's question
_TIMEOUT_S = 30.0
_GONE_S = 60.0  # Slurm kills a job that has not ended after 30 s (KillWait)
_POLL_S = 0.5


def asks(cluster: Cluster) -> dict[str, list[str]]:
    """Return the commands for the controller, by name."""
    return {SLURM_TESTS: list(list_command(cluster.acceptance.run_as))} if cluster.acceptance else {}


def parse(answers: Mapping[str, str]) -> tuple[OwnedJob, ...]:
    """Return the test jobs in the controller's answers."""
    return parse_owned(answers.get(SLURM_TESTS, ""))


def dead(job: OwnedJob) -> bool:
    """Return True if the job's run has ended: its process has ended, or was silent too long."""
    return ended(job.owner.process) or job.silent_s >= SILENT_S


def without_left(answers: Mapping[str, str], leftovers: Collection[OwnedJob]) -> dict[str, str]:
    """Return the controller's jobs without those that will be cancelled, since no run waits for them."""
    numbers = {job.number for job in leftovers}
    lines = {name: answers[name].splitlines() for name in (SLURM_JOBS, SLURM_WAITING) if name in answers}
    remaining = {
        name: [line for line in entries if line.strip().split("|")[0] not in numbers] for name, entries in lines.items()
    }
    return {**answers, **{name: "".join(f"{line}\n" for line in entries) for name, entries in remaining.items()}}


def clear(engine: Engine, cluster: Cluster, say: Callable[[str], None]) -> None:
    """Cancel test jobs of dead runs, and wait until their nodes are free; name those of active runs."""
    jobs = _ask(engine, cluster)
    for job in jobs:
        if not dead(job):
            say(f"{job.sentence()}: its run is active; not touched")
    leftovers = [job for job in jobs if dead(job)]
    waiting = [job for job in leftovers if not job.completing]
    for job in waiting:
        say(f"{job.sentence()}: its run has ended; cancelled")
    if waiting:
        _run(engine, cluster, tuple(cancel_jobs(*(job.number for job in waiting))))
    numbers, until = {job.number for job in leftovers}, time.monotonic() + _GONE_S
    while numbers and time.monotonic() < until:
        time.sleep(_POLL_S)
        listed = _run(engine, cluster, list_command(cluster.acceptance.run_as)) if cluster.acceptance else ""
        numbers &= numbers if listed is None else {job.number for job in parse_owned(listed)}
    if numbers:
        say(f"Slurm has not ended job {', '.join(sorted(numbers))} yet")


def _ask(engine: Engine, cluster: Cluster) -> tuple[OwnedJob, ...]:
    if cluster.acceptance is None:
        return ()
    return parse_owned(_run(engine, cluster, list_command(cluster.acceptance.run_as)) or "")


def _run(engine: Engine, cluster: Cluster, argv: tuple[str, ...]) -> str | None:
    """Return what a command on the controller printed; None where it failed, as without Slurm."""
    task = f"leftover:{time.monotonic_ns()}"
    data = engine.run(Command(task, cluster.slurm.controller, argv, "", "root", _TIMEOUT_S)).data
    return str(data["stdout"]) if data["ok"] else None
