"""A package manager with one file as its database: what a second one takes. It travels to the node in a test.

`/var/lib/toy/database.json`: `installed` and `sources` (version by package), `pinned` (packages that stay as they are),
`replaces` (packages that one removes), and `files` by package.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node.events import EventReporter, NodeError
from hpcforge.node.inspection import Conflict
from hpcforge.node.kinds import SpaceNeed
from hpcforge.node.package_manager import Foreseen, PackageManager, TransactionResult

if TYPE_CHECKING:
    from hpcforge.node.inspection import Inspection

DATABASE = Path("/var/lib/toy/database.json")


class ToyManager(PackageManager):
    """All that the interface has no default for."""

    name = "toy"
    installer = "toy-install"
    purger = "toy-remove"
    database = "toydb"
    settings_folder = "/etc/toy/"
    folders = ("/var/lib/toy",)
    growing = ("/var/lib/toy",)
    base_needs = (SpaceNeed("/var/lib/toy", 4096, 1),)
    hold_needs = ()

    def missing(self, names: Sequence[str]) -> list[str]:
        """Count one of another version than the sources have as missing, so that it is upgraded."""
        for name in names:
            if not name.isidentifier():
                raise NodeError(f"{name!r} is not a package name")
        data = _read()
        versions = {name: data["sources"].get(name, version) for name, version in data["installed"].items()}
        return [name for name in sorted(set(names)) if data["installed"].get(name, "none") != versions.get(name)]

    def foresee(self, names: Collection[str]) -> Foreseen:
        data = _read()
        removes = {
            old: sorted(new for new in names if old in data["replaces"].get(new, ())) for old in data["installed"]
        }
        return Foreseen({old: by for old, by in removes.items() if by}, frozenset(names) - data["sources"].keys())

    def install(
        self, names: Sequence[str], fresh_lists: bool, removes: Collection[str], report: EventReporter
    ) -> TransactionResult:
        data = _read()
        goes = self.foresee(names).removes
        if goes.keys() - set(removes):
            return TransactionResult(frozenset(), f"{', '.join(goes)} would go")
        report.progress(None, f"sources are {'read again' if fresh_lists else 'as they were'}")
        unknown = frozenset(names) - data["sources"].keys()
        data["installed"].update({name: data["sources"][name] for name in names if name not in unknown})
        _write({**data, "installed": {name: at for name, at in data["installed"].items() if name not in goes}})
        return TransactionResult(unknown, None)

    def purge(self, names: Sequence[str], report: EventReporter) -> frozenset[str]:
        data = _read()
        gone = frozenset(names) & data["installed"].keys()
        _write({**data, "installed": {name: at for name, at in data["installed"].items() if name not in gone}})
        return gone

    def needs(self, names: Sequence[str]) -> list[SpaceNeed]:
        return [SpaceNeed("/var/lib/toy", _read()["sizes"].get(name, 0), 1) for name in names]

    def files(self, name: str) -> list[str]:
        return list(_read()["files"].get(name, ()))

    def is_packaged(self, path: str, root: Path) -> bool:
        return any(path in paths for paths in _read()["files"].values())

    def obstacles(self, subject: str, host: Inspection) -> Iterator[Conflict | str]:
        for name, role in host.packages().items() if subject == "packages" else ():
            if name in _read()["pinned"]:
                yield Conflict(role, "package", name, "it is pinned", (f"toy-unpin {name}",))


def _read() -> dict:
    return json.loads(DATABASE.read_text())


def _write(data: dict) -> None:
    DATABASE.write_text(json.dumps(data))


MANAGER = ToyManager()
