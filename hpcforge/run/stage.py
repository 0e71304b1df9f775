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
        """Return the name of a role of the node program among the node's roles."""
        return role

    def lost(self, error: str) -> str | None:  # noqa: ARG002
        """Return the reason for which its roles fail on an unreachable node; None: they may continue later."""
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
    """Packages, files and all else before units."""

    name = "packages and files"
    brings_files = True


class DownloadsStage(FilesStage):
    """Content from another node of the cluster."""

    name = "downloads"


class ActivateStage(Stage):
    """Units and checks."""

    name = "units and checks"


class OpaqueStage(Stage):
    """A role's own code, or the record of its run."""

    @property
    def name(self) -> str:
        """That of the role."""
        return self.roles[0]


class RemovalStage(Stage):
    """Removal of resources that no role declares any more."""

    name = "removal"

    def label(self, role: str) -> str:
        """Return a name apart from that of the role, which may stay with fewer resources."""
        return removed(role)


class ConfirmStage(Stage):
    """Confirm a guarded change over a new connection."""

    name = "confirmation"
    confirms = True

    def lost(self, error: str) -> str | None:
        """Return the reason for a failed connection: the guard reverts the change."""
        return f"no new connection after the change, so the node restores the old files: {error}"


class FinalCheckStage(Stage):
    """Read the node's facts, with its GPU driver, after its last change."""

    name = "a last look"


class RebootStage(Stage):
    """Restart the node: `hpcforge.run.reboot` watches it from outside."""

    name = "reboot"
    restarts = True


def removed(role: str) -> str:
    """Return the name of a role's removal, or of a part of it, among a node's roles."""
    return f"{role} (removed)"
