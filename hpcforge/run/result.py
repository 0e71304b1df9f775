"""How a run ended, role by role and node by node."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from hpcforge.engines.tasks import Event
from hpcforge.plan.plan import Kept, Plan
from hpcforge.tally import Parts, Tally

Status = Literal["done", "failed", "skipped", "unreachable", "interrupted", "deferred"]


@dataclass(frozen=True)
class RoleOutcome:
    """How one role ended on one node."""

    status: Status
    detail: str = ""


@dataclass
class RunResult:
    """How a run ended: per node and role, which nodes were lost, and the facts they gave last."""

    outcomes: dict[str, dict[str, RoleOutcome]]
    lost: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    abandoned: dict[str, str] = field(default_factory=dict)  # left the cluster without being cleaned up, and why
    stays: dict[str, tuple[Kept, ...]] = field(default_factory=dict)  # what nodes say is left of what was removed
    busy: dict[str, str] = field(default_factory=dict)  # nodes where another run was at work, or a later one had been

    def failed(self) -> dict[str, list[tuple[str, str]]]:
        """Role and reason by node, of what failed of itself (not of what was skipped for it)."""
        found: dict[str, list[tuple[str, str]]] = {}
        for node, roles in self.outcomes.items():
            for role, outcome in roles.items():
                if outcome.status == "failed":
                    found.setdefault(node, []).append((role, outcome.detail))
        return found

    def unfinished(self) -> set[str]:
        """Nodes that were lost, or with a failed or skipped role; without deferred nodes."""
        ended = {
            node
            for node, roles in self.outcomes.items()
            if any(outcome.status not in ("done", "deferred") for outcome in roles.values())
        }
        return ended | set(self.lost)

    def deferred(self) -> dict[str, str]:
        """Why by node, of those left for another apply because jobs run there."""
        return {
            node: outcome.detail
            for node, roles in self.outcomes.items()
            for outcome in roles.values()
            if outcome.status == "deferred"
        }


# The listener of a run's events.


class Listener(Protocol):
    """A listener of events."""

    def say(self, text: str) -> None:
        """Something worth a line."""

    def detail(self, text: str) -> None:
        """What is being done just now."""

    def nodes(self, names: Collection[str]) -> None:
        """Which nodes are about to be worked on."""

    def event(self, event: Event) -> None:
        """An engine's event, or one of the walk's."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time what happens inside, under a name."""

    def tally(self, name: str, parts: Parts) -> AbstractContextManager[Tally]:
        """Count the parts of what happens inside."""


class Operator(Listener, Protocol):
    """Who is shown what will be done as well."""

    def plan(self, plan: Plan, moved: Mapping[str, str]) -> None:
        """What will be done, and the nodes that are left out since they have changed, with why."""

    def warn_moved(self, moved: Mapping[str, str]) -> None:
        """More such nodes."""

    def waits(self, name: str) -> AbstractContextManager[None]:
        """Time a wait for others, under a name; for people only."""
