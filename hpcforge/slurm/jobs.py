"""Jobs as squeue lists them: the one command line, and the one reader of its lines; which wait for certain nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hpcforge.blueprint import hostlist

# Lines with columns between bars: the output of squeue and sinfo with hpcforge's --format.


FREE_TEXT = frozenset({"name", "reason", "comment"})  # users' texts, which may contain a bar: one in a row at most


def rows(output: str, columns: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield what each line has in these columns; a line that has fewer or more is skipped."""
    free = next((index for index, name in enumerate(columns) if name in FREE_TEXT), len(columns) - 1)
    after = len(columns) - free - 1
    for line in output.splitlines():
        cells = line.strip().split("|", free)
        cells = [*cells[:-1], *cells[-1].rsplit("|", after)] if after else cells
        if len(cells) == len(columns) and (columns[free] in FREE_TEXT or "|" not in cells[free]):
            yield dict(zip(columns, cells, strict=True))


Column = Literal[
    "number", "id", "user", "name", "state", "reason", "nodes", "count", "partitions", "asked_for", "comment", "ends"
]
# Fields for squeue(1) --format. In an array `number` is the job's own number, and `id` is "20_3".
_FORMAT: dict[Column, str] = {
    "number": "%A",
    "id": "%i",
    "user": "%u",
    "name": "%j",
    "state": "%T",
    "reason": "%r",
    "nodes": "%N",
    "count": "%D",
    "partitions": "%P",
    "asked_for": "%n",
    "comment": "%k",
    "ends": "%e",
}


@dataclass(frozen=True)
class Job:
    """A line of squeue, each value as Slurm spells it; columns that were not requested are empty."""

    number: str = ""
    id: str = ""
    user: str = ""
    name: str = ""
    state: str = ""
    reason: str = ""
    nodes: str = ""  # hostlist of its nodes; "": it has none yet
    count: str = ""  # lowest number of nodes
    partitions: str = ""
    asked_for: str = ""  # hostlist of the nodes that it requests by name
    comment: str = ""
    ends: str = ""  # end, in the past or future, by the head's clock: 2026-11-28T10:02:41

    @property
    def holds(self) -> tuple[str, ...]:
        """Return the nodes that it holds; none if its text is not a hostlist."""
        try:
            return tuple(hostlist.expand(self.nodes)) if self.nodes else ()
        except hostlist.HostlistError:
            return ()


def shown(columns: Sequence[Column]) -> str:
    """Return the --format of these columns."""
    return "|".join(_FORMAT[column] for column in columns)


def squeue(columns: Sequence[Column], states: str, *more: str) -> tuple[str, ...]:
    """Return the command that lists jobs in these states, for `read`; `more` are further options of squeue."""
    return ("squeue", "--noheader", f"--states={states}", *more, f"--format={shown(columns)}")


def read(output: str, columns: Sequence[Column]) -> Iterator[Job]:
    """Yield the jobs in what squeue printed; other lines are skipped."""
    for row in rows(output, columns):
        job = Job(**row)
        if "number" not in columns or job.number.isdecimal():
            yield job


# Running jobs by node, and jobs that wait for certain nodes, from Slurm's output.


SLURM_JOBS = "slurm_jobs"  # name of the question to the controller
_RUNNING: tuple[Column, ...] = ("number", "nodes")
SLURM_JOBS_COMMAND = squeue(_RUNNING, "RUNNING,SUSPENDED,COMPLETING,CONFIGURING")
SLURM_WAITING = "slurm_waiting"
_PENDING: tuple[Column, ...] = ("number", "user", "count", "partitions", "asked_for")
# A queue may be long, and an answer is limited to 4 MiB. So jobs without named nodes are listed only if they need
# several nodes, and the number of all lines is limited.
SLURM_WAITING_COMMAND = (
    "sh", "-c",
    f'all=$(squeue --noheader --states=PENDING --format="{shown(_PENDING)}") && '
    'printf "%s\\n" "$all" | awk -F"|" "$1"',
    "sh", '($3 > 1 || $5 != "") && length($0) < 1000 && ++count <= 4000',
)  # fmt: skip
_SHOWN = 3


@dataclass(frozen=True)
class WaitingJob:
    """A job that has not begun. `nodes`: the nodes that it requests by name."""

    number: str
    user: str
    at_least: int  # nodes
    partitions: tuple[str, ...]
    nodes: tuple[str, ...] = ()


def parse_jobs(output: str) -> dict[str, tuple[str, ...]]:
    """Return ids of the jobs on each node with jobs, from the output of `SLURM_JOBS_COMMAND`; skip other lines."""
    by_node: dict[str, list[str]] = {}
    for job in read(output, _RUNNING):
        for node in job.holds:
            by_node.setdefault(node, []).append(job.number)
    return {node: tuple(numbers) for node, numbers in by_node.items()}


def readable(output: str) -> bool:
    """Return whether each line of `SLURM_JOBS_COMMAND` is a job whose nodes can be read."""
    jobs = list(read(output, _RUNNING))
    return len(jobs) == sum(bool(line.strip()) for line in output.splitlines()) and all(
        job.holds or not job.nodes for job in jobs
    )


def parse_waiting(output: str) -> tuple[WaitingJob, ...]:
    """Parse the jobs in `SLURM_WAITING_COMMAND`'s output, each once (arrays may have several lines); skip others."""
    return tuple(dict.fromkeys(_waiting(output)))


def _waiting(output: str) -> Iterator[WaitingJob]:
    for job in read(output, _PENDING):
        if not job.count.isdecimal():
            continue
        try:
            nodes = tuple(hostlist.expand(job.asked_for)) if job.asked_for not in ("", "(null)") else ()
        except hostlist.HostlistError:
            continue
        yield WaitingJob(job.number, job.user, int(job.count), tuple(job.partitions.split(",")), nodes)


def asks_for(node: str, waiting: Collection[WaitingJob]) -> tuple[WaitingJob, ...]:
    """Return the jobs that request a node by name: Slurm ends them, held ones too, once the node is unknown."""
    return tuple(job for job in waiting if node in job.nodes)


def too_large(waiting: Collection[WaitingJob], sizes: Mapping[str, int], leaving: int) -> tuple[WaitingJob, ...]:
    """Return the jobs that need more nodes than their partitions have after the removal of nodes."""
    jobs = []
    for job in waiting:
        largest = max((sizes[name] for name in job.partitions if name in sizes), default=None)
        if largest is not None and largest < job.at_least <= largest + leaving:
            jobs.append(job)
    return tuple(jobs)


def asked_for(node: str, asking: Collection[WaitingJob]) -> str:
    """Return why a node stays, and the remedy: `job 17 of ada asks for w02 ...`."""
    first_few = [f"job {job.number} of {job.user}" for job in list(asking)[:_SHOWN]]
    more = f" and {len(asking) - _SHOWN} more" if len(asking) > _SHOWN else ""
    first = next(iter(asking)).number
    ask, end = ("asks", "ends it") if len(asking) == 1 else ("ask", "ends them")
    return (
        f"{', '.join(first_few)}{more} {ask} for {node} by name and {'has' if len(asking) == 1 else 'have'} not begun; "
        f"when Slurm forgets {node} it {end}. To go on: scontrol update JobId={first} ReqNodeList= "
        f"(it runs elsewhere) or scancel {first}"
    )
