"""The package manager of this node: its interface, and its choice.

A manager is a module of this folder, named in `hpcforge.kinds.PACKAGE_MANAGERS`, with a `MANAGER`. It alone has the
manager's programs, files and words; the rest of the node program uses the class below. It may import `hpcforge.kinds`
and the helpers of `hpcforge.node`.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from hpcforge.kinds import PACKAGE_MANAGERS
from hpcforge.node.events import EventReporter, NodeError

if TYPE_CHECKING:
    from hpcforge.node.inspection import Conflict, Inspection
    from hpcforge.node.kinds import SpaceNeed


class Foreseen(NamedTuple):
    """`removes`: packages to be removed, each with its causes; `unforeseen`: packages that cannot be simulated."""

    removes: dict[str, list[str]]
    unforeseen: frozenset[str]


class TransactionResult(NamedTuple):
    """The result of a transaction: packages without a source, and the error of the rest (None: all installed)."""

    unknown: frozenset[str]
    error: str | None


class SettingsForm(NamedTuple):
    """The file format of a kind of resources, one file of the package manager for each resource."""

    path: Callable[[str], str]  # of a resource's name
    text: Callable[..., str]  # of a resource
    error: Callable[..., str | None]  # of a resource: the reason why it cannot be written, or None


class PackageManager(ABC):
    """The interface of a package manager. Methods raise NodeError if its programs fail or do not answer.

    Names are the manager's own names of packages. A manager without holds, settings files or service starts keeps the
    methods that are not abstract: they refuse, or do nothing.
    """

    name: str  # name of its module
    installer: str  # the program that installs, in messages
    purger: str  # the command that removes a package and its configuration, in messages
    database: str  # the database of package states, in messages
    settings_folder: str  # a changed file in it may change the available packages
    folders: Sequence[str]  # its own folders, in which each transaction writes
    growing: Sequence[str]  # places that installed and fetched packages fill
    base_needs: Sequence[SpaceNeed]  # space for any transaction
    hold_needs: Sequence[SpaceNeed]  # space for a held package

    @abstractmethod
    def missing(self, names: Sequence[str]) -> list[str]:
        """Return the packages that are not installed and configured, sorted. NodeError for an invalid name."""

    @abstractmethod
    def foresee(self, names: Collection[str]) -> Foreseen:
        """Return the packages that installing these would remove. It changes nothing and waits for no lock."""

    @abstractmethod
    def install(
        self, names: Sequence[str], fresh_lists: bool, removes: Collection[str], report: EventReporter
    ) -> TransactionResult:
        """Install packages in one transaction, and start no service that does not run yet.

        `fresh_lists`: sources have changed, so read them again first. `removes`: packages that may be removed for it;
        nothing is done if others would be. It waits for a lock, finishes an interrupted transaction first, and
        repeats downloads after network failures. A package without a source does not stop the others. Failures with
        a cause on this node are returned as an error; NodeError if the packages do not fit on its disks.
        """

    @abstractmethod
    def purge(self, names: Sequence[str], report: EventReporter) -> frozenset[str]:
        """Remove packages and their configuration; return the removed ones. NodeError if others would go, too."""

    @abstractmethod
    def needs(self, names: Sequence[str]) -> list[SpaceNeed]:
        """Return the space for these packages and their dependencies, in addition to `base_needs`."""

    @abstractmethod
    def files(self, name: str) -> list[str]:
        """Return the paths of an installed package; none for another one."""

    @abstractmethod
    def is_packaged(self, path: str, root: Path) -> bool:
        """Return whether a file is an installed package's; `root` is the root folder of the system."""

    @abstractmethod
    def obstacles(self, subject: str, host: Inspection) -> Iterator[Conflict | str]:
        """Yield the obstacles to installing the packages of an inspection, and texts as warnings.

        `subject`: "packages" (held, forbidden, broken), or "package_sources" (no answer, no valid signature).
        """

    def is_held(self, name: str) -> bool:  # noqa: ARG002
        """Return whether a package is held at its version; False for a manager without holds."""
        return False

    def hold(self, name: str, on: bool) -> None:  # noqa: ARG002
        """Hold an installed package at its version, or release it. NodeError for a manager without holds."""
        raise NodeError(f"package {name!r} cannot be held: {self.name} has no holds")

    def settings(self, kind: str) -> SettingsForm:
        """Return the file format of a kind, `sources` or `pins`; a manager without such files refuses each resource."""
        error = f"{self.name}, this node's package manager, has no {kind}"
        return SettingsForm(lambda name: f"/nonexistent/{kind}/{name}", lambda _: "", lambda _: error)

    def release(self) -> None:  # noqa: B027 - not every manager needs it
        """Remove the leftovers of a killed run that prevent service starts."""


def of_node() -> PackageManager:
    """Return the first manager of the table with a program on this node; else the first, whose calls will fail."""
    names = [name for name, program in PACKAGE_MANAGERS.items() if Path(program).exists()]
    module = importlib.import_module(f"hpcforge.node.package_manager.{[*names, *PACKAGE_MANAGERS][0]}")
    return cast(PackageManager, module.MANAGER)
