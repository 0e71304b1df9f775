"""The plan: what would change where, and why. Complete, printable data; running reads nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcforge.plan.admission import Declared, Drain, Shortfall
from hpcforge.plan.desired import Account, Check, Directory, File, Need, Opaque


@dataclass(frozen=True)
class FileChange:
    """A file to be written. `old_text` is None where there is none to show: new, secret, or not text."""

    file: File
    exists: bool
    same_content: bool  # only mode or owner differ
    old_text: str | None
    old_mode: str | None
    old_owner: str | None
    old_group: str | None


@dataclass(frozen=True)
class UnitChange:
    """What is done to a unit, in order, and why."""

    name: str
    actions: tuple[str, ...]  # of "enable", "start", "restart"
    reason: str


@dataclass(frozen=True)
class OpaqueChange:
    """Opaque work to be run, and why."""

    opaque: Opaque
    reason: str


@dataclass(frozen=True)
class Change:
    """What one role changes on one node."""

    needs: tuple[Need, ...] = ()
    packages: tuple[str, ...] = ()
    directories: tuple[Directory, ...] = ()
    files: tuple[FileChange, ...] = ()
    accounts: tuple[Account, ...] = ()
    units: tuple[UnitChange, ...] = ()
    opaque: OpaqueChange | None = None
    failed_checks: tuple[tuple[str, str], ...] = ()  # name and detail, where a failed check is why something is done
    checks: tuple[Check, ...] = ()  # run afterwards

    def __bool__(self) -> bool:
        return bool(
            self.packages
            or self.directories
            or self.files
            or self.accounts
            or self.units
            or self.opaque
            or self.failed_checks
        )


@dataclass(frozen=True)
class Step:
    """A role on the nodes where it has something to change."""

    role: str
    changes: Mapping[str, Change]  # by node


@dataclass(frozen=True)
class Plan:
    """Everything an apply will do."""

    cluster: str
    nodes: tuple[str, ...]  # all the plan speaks of, reachable or not
    steps: tuple[Step, ...]  # in the order roles are done on a node
    first_contact: tuple[str, ...]  # nodes that lack Python 3 and get it first
    unreachable: Mapping[str, str]  # node -> why
    controller: str
    declared: tuple[Declared, ...]  # what each worker must show to be admitted
    shortfalls: tuple[Shortfall, ...]  # who does not, as far as is known now
    drains: tuple[Drain, ...]  # what Slurm would be told
    texts: Mapping[str, str]  # file content by digest, of the files that change

    @property
    def pending(self) -> bool:
        """True if applying would change something."""
        return bool(self.steps or self.first_contact or self.drains)

    @property
    def touched(self) -> tuple[str, ...]:
        """Nodes that would be changed, in cluster order."""
        changed = {node for step in self.steps for node in step.changes} | set(self.first_contact)
        return tuple(node for node in self.nodes if node in changed)
