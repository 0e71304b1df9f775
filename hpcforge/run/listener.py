"""The listener of a run's events."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from hpcforge.engines.tasks import Event
from hpcforge.plan.plan import Plan
from hpcforge.tally import Parts, Tally


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
