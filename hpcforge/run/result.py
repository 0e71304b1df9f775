"""A run: its number (nodes refuse an older one), and its result by node and role."""

from __future__ import annotations

import dataclasses
import secrets
import socket
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

from hpcforge.engines.tasks import Event
from hpcforge.locks import operator
from hpcforge.node import requests
from hpcforge.plan.admission import DrainOrder, Shortfall
from hpcforge.plan.plan import Kept, Plan
from hpcforge.plan.roster import Roster
from hpcforge.plan.test_selection import DeferredTests, SmokeRun
from hpcforge.slurm.down_nodes import DownWorker
from hpcforge.tally import Parts, Tally
from hpcforge.verify.verdict_records import Recorded
from hpcforge.verify.verdicts import Verdict

UNREACHABLE = "unreachable: "  # how a reason begins where hpcforge could not get in
Status = Literal["done", "failed", "skipped", "unreachable", "interrupted", "deferred"]
_NO_ROSTER = Roster()


@dataclass(frozen=True)
class Run:
    """One run, as sent to nodes and the head. `commit` is the commit of the blueprint's folder, None without git."""

    number: int
    id: str
    who: str  # user@host of the operator
    cluster: str
    hpcforge: str  # version
    commit: str | None = None

    def numbered(self, receipts: Iterable[Mapping[str, Any] | None], roster: Roster = _NO_ROSTER) -> Self:
        """Return the run with the number above the highest in any contacted node's receipt, or in the roster."""
        highest = max((int(receipt["run"]) for receipt in receipts if receipt), default=0)
        return dataclasses.replace(self, number=max(highest, roster.run.number if roster.run else 0) + 1)

    def request(self) -> requests.RunRequest:
        """Return its form in every request that changes a node."""
        return {
            "number": self.number,
            "id": self.id,
            "who": self.who,
            "cluster": self.cluster,
            "hpcforge": self.hpcforge,
            "commit": self.commit,
        }


def begin(cluster: str, version: str) -> Run:
    """Return a new run, not yet numbered."""
    return Run(0, secrets.token_hex(8), f"{operator()}@{socket.gethostname()}", cluster, version)


@dataclass(frozen=True)
class RoleOutcome:
    """The outcome of one role on one node."""

    status: Status
    detail: str = ""


@dataclass
class RunResult:
    """The result of a run: outcomes by node and role, lost nodes, and the last facts."""

    outcomes: dict[str, dict[str, RoleOutcome]]
    lost: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    abandoned: dict[str, str] = field(default_factory=dict)  # nodes that left without a removal, with the reason
    stays: dict[str, tuple[Kept, ...]] = field(default_factory=dict)  # the remains of removed resources, by node
    busy: dict[str, str] = field(default_factory=dict)  # nodes with an active run, or a later one

    def failed(self) -> dict[str, list[tuple[str, str]]]:
        """Return the failed roles and reasons by node, without roles that were skipped for them."""
        reasons: dict[str, list[tuple[str, str]]] = {}
        for node, roles in self.outcomes.items():
            for role, outcome in roles.items():
                if outcome.status == "failed":
                    reasons.setdefault(node, []).append((role, outcome.detail))
        return reasons

    def unfinished(self) -> set[str]:
        """Return lost nodes, and nodes with a failed or skipped role; without deferred nodes."""
        ended = {
            node
            for node, roles in self.outcomes.items()
            if any(outcome.status not in ("done", "deferred") for outcome in roles.values())
        }
        return ended | set(self.lost)

    def deferred(self) -> dict[str, str]:
        """Return the nodes deferred to another apply because jobs run there, with the reason."""
        return {
            node: outcome.detail
            for node, roles in self.outcomes.items()
            for outcome in roles.values()
            if outcome.status == "deferred"
        }


@dataclass(frozen=True)
class Admission:
    """Shortfalls, orders to Slurm, nodes that it does not schedule, and an error on the way."""

    shortfalls: tuple[Shortfall, ...]
    ordered: tuple[DrainOrder, ...]
    not_scheduled: Mapping[str, str]  # node in Slurm, judged or not -> its state and reason
    error: str | None


@dataclass(frozen=True)
class Reached:
    """A new verdict, and its run."""

    run: SmokeRun
    verdict: Verdict


@dataclass(frozen=True)
class Verified:
    """The verdicts of this run, and all records of the cluster after it."""

    reached: tuple[Reached, ...] = ()
    waiting: tuple[DeferredTests, ...] = ()  # tests that wait for users' jobs
    fell_out: Mapping[str, str] = field(
        default_factory=dict
    )  # nodes without which a test was repeated, with the reason
    recorded: Recorded = field(default_factory=Recorded)
    note: str = ""  # the reason for missing verdicts, or a problem with storing them


@dataclass(frozen=True)
class ApplyResult:
    """The result of an apply."""

    result: RunResult
    admission: Admission | None = None
    tests: Verified = field(default_factory=Verified)
    error: str | None = None
    moved: Mapping[str, str] = field(default_factory=dict)  # nodes for which the plan was stale, with the reason
    down: tuple[DownWorker, ...] = ()  # workers that take no job, though no operator holds them


# The listener of a run's events.


class Listener(Protocol):
    """A listener of events."""

    def say(self, text: str) -> None:
        """Print a line."""

    def detail(self, text: str) -> None:
        """Show the present activity."""

    def nodes(self, names: Collection[str]) -> None:
        """Take the names of the nodes of the run."""

    def event(self, event: Event) -> None:
        """Show an event of an engine, or of the walk."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time what happens inside, under a name."""

    def tally(self, name: str, parts: Parts) -> AbstractContextManager[Tally]:
        """Count the parts of what happens inside."""


class Operator(Listener, Protocol):
    """A listener that also sees the plan."""

    def plan(self, plan: Plan, moved: Mapping[str, str]) -> None:
        """Show the plan, and the nodes left out because they have changed, with the reason."""

    def warn_moved(self, moved: Mapping[str, str]) -> None:
        """Show more such nodes."""

    def waits(self, name: str) -> AbstractContextManager[None]:
        """Time a wait for others, under a name; for people only."""
