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
    """`removes`: what would go, and the packages that it goes for; `unforeseen`: those that cannot be judged."""

    removes: dict[str, list[str]]
    unforeseen: frozenset[str]


class TransactionResult(NamedTuple):
    """How a transaction went: packages that no source has, and why the rest is not there (None: it is)."""

    unknown: frozenset[str]
    error: str | None


class SettingsForm(NamedTuple):
    """How a kind of resources is written as files of a package manager, one file for each resource."""

    path: Callable[[str], str]  # of a resource's name
    text: Callable[..., str]  # of a resource
    error: Callable[..., str | None]  # of a resource: why it cannot be written so, None where it can


class PackageManager(ABC):
    """What the program asks of a package manager. Methods raise NodeError where its programs fail or do not answer.

    Names are those of packages as the manager has them. A manager without holds, settings as files, service starts or
    obstacles leaves the methods that are not abstract as they are: they refuse, or have nothing to do.
    """

    name: str  # of its module
    installer: str  # the program that installs, in messages
    purger: str  # the command that removes a package and its configuration, in messages
    database: str  # what keeps the states of packages, in messages
    settings_folder: str  # a file that changes in it may change what there is to install
    folders: Sequence[str]  # of its own, in which each transaction writes
    growing: Sequence[str]  # places that installed and fetched packages fill
    base_needs: Sequence[SpaceNeed]  # of any transaction
    hold_needs: Sequence[SpaceNeed]  # of a package that is held

    @abstractmethod
    def missing(self, names: Sequence[str]) -> list[str]:
        """Return those that are not installed and configured, each once, sorted. NodeError for an invalid name."""

    @abstractmethod
    def foresee(self, names: Collection[str]) -> Foreseen:
        """Return what would be removed if these were installed together. It changes nothing and waits for no lock."""

    @abstractmethod
    def install(
        self, names: Sequence[str], fresh_lists: bool, removes: Collection[str], report: EventReporter
    ) -> TransactionResult:
        """Install packages in one transaction, and start no service that does not run yet.

        `fresh_lists`: sources have changed, so read them again first. `removes`: what may go for it; where anything
        else would, nothing is done. A lock is waited for, an interrupted transaction is finished first, and failures
        of the network are tried again. A package that no source has does not stop the others. What may fail for
        reasons of this node is returned as an error; NodeError where the packages do not fit on its disks.
        """

    @abstractmethod
    def purge(self, names: Sequence[str], report: EventReporter) -> frozenset[str]:
        """Remove packages and their configuration; return those that are gone. NodeError where others would go too."""

    @abstractmethod
    def needs(self, names: Sequence[str]) -> list[SpaceNeed]:
        """Return what these packages, with those that they depend on, take on the disks beside `base_needs`."""

    @abstractmethod
    def files(self, name: str) -> list[str]:
        """Return the paths of an installed package; none of another."""

    @abstractmethod
    def is_packaged(self, path: str, root: Path) -> bool:
        """Return whether a file is an installed package's; `root` is where the system's own root is."""

    @abstractmethod
    def obstacles(self, subject: str, host: Inspection) -> Iterator[Conflict | str]:
        """Yield what installing the packages of an inspection would fail on, and texts as warnings.

        `subject`: "packages" (held, forbidden, broken), or "package_sources" (no answer, no valid signature).
        """

    def is_held(self, name: str) -> bool:  # noqa: ARG002
        """Return whether a package stays at its version; where there are no holds, none does."""
        return False

    def hold(self, name: str, on: bool) -> None:  # noqa: ARG002
        """Hold an installed package at its version, or release it. NodeError where there are no holds."""
        raise NodeError(f"package {name!r} cannot be held: {self.name} has no holds")

    def settings(self, kind: str) -> SettingsForm:
        """Return how resources of a kind, `sources` or `pins`, are written. Without such files each is refused."""
        error = f"{self.name}, this node's package manager, has no {kind}"
        return SettingsForm(lambda name: f"/nonexistent/{kind}/{name}", lambda _: "", lambda _: error)

    def release(self) -> None:  # noqa: B027 - not every manager has such means
        """Revert what a killed run left of the means by which `install` starts no service."""


def of_node() -> PackageManager:
    """Return the first manager of the table whose program this node has; else the first, whose errors say so."""
    names = [name for name, program in PACKAGE_MANAGERS.items() if Path(program).exists()]
    module = importlib.import_module(f"hpcforge.node.package_manager.{[*names, *PACKAGE_MANAGERS][0]}")
    return cast(PackageManager, module.MANAGER)
