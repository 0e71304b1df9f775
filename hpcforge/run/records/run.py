"""Which run this is: nodes refuse one that is older than the last they saw."""

from __future__ import annotations

import dataclasses
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from hpcforge.locks import operator
from hpcforge.node import requests
from hpcforge.plan.roster import Roster

_NO_ROSTER = Roster()


@dataclass(frozen=True)
class Run:
    """One run, as sent to nodes and the head. `commit` is the commit of the blueprint's folder, None without git."""

    number: int
    id: str
    who: str  # user@host of the operator
    cluster: str
    hpcforge: str  # version
    commit: str | None = None

    def numbered(self, receipts: Iterable[Mapping[str, Any] | None], roster: Roster = _NO_ROSTER) -> Self:
        """The run with the number above the highest that any contacted node's receipt, or the roster, has seen."""
        highest = max((int(receipt["run"]) for receipt in receipts if receipt), default=0)
        return dataclasses.replace(self, number=max(highest, roster.run.number if roster.run else 0) + 1)

    def request(self) -> requests.RunRequest:
        """The form in which it travels in every request that changes a node."""
        return {
            "number": self.number,
            "id": self.id,
            "who": self.who,
            "cluster": self.cluster,
            "hpcforge": self.hpcforge,
            "commit": self.commit,
        }


def begin(cluster: str, version: str) -> Run:
    """A new run, not yet numbered."""
    return Run(0, secrets.token_hex(8), f"{operator()}@{socket.gethostname()}", cluster, version)
