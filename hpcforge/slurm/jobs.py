"""Jobs as squeue lists them: the one command line, and the one reader of its lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hpcforge.blueprint import hostlist
from hpcforge.slurm.columns import rows

Column = Literal[
    "number", "id", "user", "name", "state", "reason", "nodes", "count", "partitions", "asked_for", "comment", "ends"
]
# squeue(1), --format; `number` is the job's own also in an array, where `id` is "20_3".
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
    """A line of squeue, each value as Slurm spells it; what was not asked for is empty."""

    number: str = ""
    id: str = ""
    user: str = ""
    name: str = ""
    state: str = ""
    reason: str = ""
    nodes: str = ""  # hostlist of those it holds; "" before it has any
    count: str = ""  # of nodes, at least
    partitions: str = ""
    asked_for: str = ""  # hostlist of nodes that it asks for by name
    comment: str = ""
    ends: str = ""  # or ended, by the head's clock: 2026-11-28T10:02:41

    @property
    def holds(self) -> tuple[str, ...]:
        """The nodes that it holds; none where that is no hostlist."""
        try:
            return tuple(hostlist.expand(self.nodes)) if self.nodes else ()
        except hostlist.HostlistError:
            return ()


def shown(columns: Sequence[Column]) -> str:
    """The --format of these columns."""
    return "|".join(_FORMAT[column] for column in columns)


def squeue(columns: Sequence[Column], states: str, *more: str) -> tuple[str, ...]:
    """The command that lists jobs in these states, as `read` reads it; `more` options are of squeue."""
    return ("squeue", "--noheader", f"--states={states}", *more, f"--format={shown(columns)}")


def read(output: str, columns: Sequence[Column]) -> Iterator[Job]:
    """Yield the jobs in what squeue printed; other lines are skipped."""
    for row in rows(output, columns):
        job = Job(**row)
        if "number" not in columns or job.number.isdecimal():
            yield job
