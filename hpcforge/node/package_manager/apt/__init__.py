"""apt and dpkg, of Debian and its derivatives.

Modules beside this one are imported only when needed, since the node compiles each one every time. They may import
`hpcforge.kinds` and the helpers of `hpcforge.node`. Names of packages do not belong here: roles have them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import commands
from hpcforge.node.kinds import SpaceNeed
from hpcforge.node.package_manager import Foreseen, PackageManager, SettingsForm, TransactionResult
from hpcforge.node.package_manager.apt import dpkg

if TYPE_CHECKING:
    from hpcforge.node.events import EventReporter
    from hpcforge.node.inspection import Conflict, Inspection

_ARCHIVES = "/var/cache/apt/archives"
_DPKG_BYTES = 4 * 1024**2  # a new copy of its status beside the old one, and lists of files
_PACKAGE_INODES = 100  # files of an average Debian package
_SIZES_S = 120
_SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = r"([\d.,]+) (B|kB|MB|GB)"
_DOWNLOAD = re.compile(rf"^Need to get {_SIZE}(?:/\S+ \w+)? of archives", re.MULTILINE)
_INSTALLED = re.compile(rf"^After this operation, {_SIZE} of additional disk space", re.MULTILINE)


class AptManager(PackageManager):
    """apt-get installs, dpkg keeps the states; pins and deb822 sources are files in /etc/apt."""

    name = "apt"
    installer = "apt-get"
    purger = "apt-get purge"
    database = "dpkg"
    settings_folder = "/etc/apt/"
    folders = ("/var/lib/dpkg", "/var/lib/dpkg/info", "/var/lib/dpkg/status", _ARCHIVES, "/var/lib/apt/lists")
    growing = ("/usr", _ARCHIVES)
    base_needs = (SpaceNeed("/usr", 0, 1), SpaceNeed("/etc", 0, 1), SpaceNeed("/var/lib/dpkg", _DPKG_BYTES, 4))
    hold_needs = (SpaceNeed("/var/lib/dpkg", 0, 2),)  # dpkg writes its status again

    def missing(self, names: Sequence[str]) -> list[str]:
        """Ask dpkg."""
        return dpkg.missing(names)

    def foresee(self, names: Collection[str]) -> Foreseen:
        """Have apt-get simulate it."""
        from hpcforge.node.package_manager.apt import simulation as apt_simulation  # noqa: PLC0415

        return apt_simulation.foresee(names)

    def install(
        self, names: Sequence[str], fresh_lists: bool, removes: Collection[str], report: EventReporter
    ) -> TransactionResult:
        """Run apt-get install."""
        from hpcforge.node.package_manager.apt import transactions as apt_transactions  # noqa: PLC0415

        return apt_transactions.install(names, fresh_lists, removes, report)

    def purge(self, names: Sequence[str], report: EventReporter) -> frozenset[str]:
        """Run apt-get purge."""
        from hpcforge.node.package_manager.apt import transactions as apt_transactions  # noqa: PLC0415

        return apt_transactions.purge(names, report)

    def needs(self, names: Sequence[str]) -> list[SpaceNeed]:
        """Ask apt-get, which prints sizes before it asks for consent."""
        options = ["-q", "-o", "Debug::NoLocking=1", "--assume-no", "--download-only", "--no-install-recommends"]
        outcome = commands.run(["apt-get", *options, "install", "--", *names], _SIZES_S, merge=True)
        download, installed = sizes(outcome.whole("apt-get install"))
        new = len(names) * _PACKAGE_INODES
        return [SpaceNeed(_ARCHIVES, download, len(names)), SpaceNeed("/usr", installed, new)]

    def files(self, name: str) -> list[str]:
        """Read dpkg's list."""
        with contextlib.suppress(OSError):
            return dpkg.list_of(name).read_text("utf-8", "replace").splitlines()
        return []

    def is_packaged(self, path: str, root: Path) -> bool:
        """Search dpkg's lists."""
        return any(f"\n{path}\n" in place.read_text("utf-8", "replace") for place in dpkg.lists(root))

    def obstacles(self, subject: str, host: Inspection) -> Iterator[Conflict | str]:
        """Simulate the transaction, and fetch from sources."""
        from hpcforge.node.package_manager.apt import obstacles as apt_obstacles  # noqa: PLC0415

        return apt_obstacles.SUBJECTS[subject](host)

    def is_held(self, name: str) -> bool:
        """Ask dpkg."""
        return dpkg.is_held(name)

    def hold(self, name: str, on: bool) -> None:
        """Run apt-mark."""
        dpkg.hold(name, on)

    def settings(self, kind: str) -> SettingsForm:
        """Return the form of apt's files."""
        from hpcforge.node.package_manager.apt import files as apt_files  # noqa: PLC0415

        return apt_files.FORMS[kind]

    def release(self) -> None:
        """Remove the policy that prevents service starts."""
        from hpcforge.node.package_manager.apt import service_starts  # noqa: PLC0415

        service_starts.release()


def sizes(text: str) -> tuple[int, int]:
    """Return the bytes to download and to install, from apt-get's output before its question; 0 if not printed."""
    matches = (pattern.search(text) for pattern in (_DOWNLOAD, _INSTALLED))
    download, installed = (
        int(float(match.group(1).replace(",", "")) * _SIZES[match.group(2)]) if match else 0 for match in matches
    )
    return download, installed


MANAGER = AptManager()
