"""Network boot: services for machines until they have an operating system, and the protection of disks with data.

dnsmasq gives addresses and the first file, nginx serves large files, and a small server here decides for each machine
and each request. `decide` and `configurations` are pure. This module has the records of requested installations: one
file, which is replaced as a whole. The package may import shared modules only; clusters, images and keys come from
`hpcforge.metal.serve`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from hpcforge.atomic import write_atomically
from hpcforge.errors import ExpectedError
from hpcforge.locks import file_lock
from hpcforge.metal.netboot.decide import Record

_RECORDS: TypeAdapter[dict[str, Record]] = TypeAdapter(dict[str, Record])


class RecordsError(ExpectedError):
    """The file of records cannot be read."""


def folder(cluster: str) -> Path:
    """Return the folder of a cluster's records and its servers' files."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base, "hpcforge") if base else Path("/var/lib/hpcforge")) / "netboot" / cluster


class Records:
    """The records of one cluster, by node."""

    def __init__(self, place: Path) -> None:
        self.path = place / "records.json"

    def read(self) -> Mapping[str, Record]:
        """Return all records; none without a file. Raises `RecordsError`."""
        try:
            return _RECORDS.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except ValidationError:
            raise RecordsError(
                f"{self.path} cannot be read",
                "remove it: every machine then boots its own disk; and ask for installations again",
            ) from None

    def change(self, node: str, how: Callable[[Record | None], Record | None]) -> Record | None:
        """Replace one record by what `how` makes of it, one change at a time; None: it stays as it is."""
        with self._changing():
            all_records = dict(self.read())
            new = how(all_records.get(node))
            if new is not None:
                all_records[node] = new
                self._write(all_records)
            return new

    def remove(self, node: str) -> None:
        """Forget a node, if there are records at all. Raises PermissionError for an ordinary user."""
        if not self.path.exists():
            return
        with self._changing():
            all_records = dict(self.read())
            if all_records.pop(node, None) is not None:
                self._write(all_records)

    def _write(self, all_records: Mapping[str, Record]) -> None:
        plain = {name: asdict(record) for name, record in all_records.items()}
        write_atomically(self.path, json.dumps(plain, indent=1) + "\n")

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with file_lock(self.path.parent / ".lock"):
            yield
