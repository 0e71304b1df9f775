"""A stage of a run: one task for one node. Each kind of stage is a type, which carries its own rules."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Self

from hpcforge.engines.tasks import NodeProgram, Task
from hpcforge.node import requests


@dataclass(frozen=True)
class Stage:
    """One task for one node, for these roles; not before every one of `after` (node, role) is done.

    The class of a stage has all that the executor needs to know.
    """

    roles: tuple[str, ...]
    after: tuple[tuple[str, str], ...]
    task: Task
    completes: tuple[str, ...]  # the roles that are done when the stage is
    barrier: tuple[str, ...] = ()  # no node finishes these roles before all nodes have their files

    brings_files: ClassVar[bool] = False
    restarts: ClassVar[bool] = (
        False  # restarts the node: its task only sends the request, and nothing on the node outlives it
    )
    confirms: ClassVar[bool] = (
        False  # confirms a guarded change, which the node reverts otherwise: so it is never left out
    )

    @property
    def name(self) -> str:
        """Its name for people."""
        raise NotImplementedError

    def label(self, role: str) -> str:
        """How a role that the node program names is called among the node's roles."""
        return role

    def lost(self, error: str) -> str | None:  # noqa: ARG002
        """Why its roles have failed where the node cannot be reached; None: they may go on once it can."""
        return None

    def only(self, roles: tuple[str, ...]) -> Self:
        """Return the stage for fewer roles."""
        task = self.task
        if isinstance(task, NodeProgram):
            request = requests.only(task.request, lambda role: self.label(role) in roles)
            task = dataclasses.replace(task, request=request)
        completes = tuple(role for role in self.completes if role in roles)
        return dataclasses.replace(self, roles=roles, task=task, completes=completes)


class FirstContactStage(Stage):
    """Python 3, where it is missing."""

    name = "bootstrap"


class FilesStage(Stage):
    """All that precedes units."""

    name = "packages and files"
    brings_files = True


class DownloadsStage(FilesStage):
    """What comes from another node of the cluster."""

    name = "downloads"


class ActivateStage(Stage):
    """Units and checks."""

    name = "units and checks"


class OpaqueStage(Stage):
    """A role's own code, or that it was run."""

    @property
    def name(self) -> str:
        """That of the role."""
        return self.roles[0]


class RemovalStage(Stage):
    """What is no longer wanted."""

    name = "removal"

    def label(self, role: str) -> str:
        """Beside the role itself, which may stay with less."""
        return removed(role)


class ConfirmStage(Stage):
    """Confirm a guarded change over a new connection."""

    name = "confirmation"
    confirms = True

    def lost(self, error: str) -> str | None:
        """Return why a failed connection is no error: the guard exists for it."""
        return f"no new connection after the change, so the node restores the old files: {error}"


class FinalCheckStage(Stage):
    """Read the node's facts, with its GPU driver, after its last change."""

    name = "a last look"


class RebootStage(Stage):
    """The node, which has to be asked from outside what became of it: see `hpcforge.run.reboot`."""

    name = "reboot"
    restarts = True


def removed(role: str) -> str:
    """How the removal of a role, or of what it no longer wants, is called among a node's roles."""
    return f"{role} (removed)"
