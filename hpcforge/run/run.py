"""Which run this is: nodes refuse one that is older than the last they saw."""

from __future__ import annotations

import getpass
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Run:
    """One apply, as nodes and the head are told of it. `commit` is that of the blueprint's folder, None without git."""

    number: int
    id: str
    who: str  # user@host of the operator
    cluster: str
    hpcforge: str  # version
    commit: str | None = None

    def request(self) -> dict[str, Any]:
        """The form in which it travels in every request that changes a node."""
        return asdict(self)


def begin(seen: Iterable[Mapping[str, Any] | None], cluster: str, version: str, commit: str | None) -> Run:
    """A new run, numbered above the highest that any contacted node's receipt has seen."""
    highest = max((int(receipt["run"]) for receipt in seen if receipt), default=0)
    who = f"{getpass.getuser()}@{socket.gethostname()}"
    return Run(highest + 1, secrets.token_hex(8), who, cluster, version, commit)
