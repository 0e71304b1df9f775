"""The answers of nodes: differences from the desired state, and facts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from hpcforge.kinds import KINDS
from hpcforge.kinds.resource import Resource
from hpcforge.plan.clocks import Span
from hpcforge.plan.desired import DesiredRole, by_kind

_SHOWN = 300  # characters of the reason of a reverted change
Difference = Mapping[str, Any]  # as in `hpcforge.node`: a role, and only its parts that differ from the desired ones


_NO_BASIS: Mapping[str, str] = {}  # one for all nodes


@dataclass(frozen=True)
class Accounts:
    """Numbers by name: of a node's own users and groups, and of the owners of files in its shared folders."""

    users: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    owner_users: Mapping[str, int] = field(default_factory=dict)
    owner_groups: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """One node's answer. `unreachable` is the reason for a missing one; `python` is False before first contact."""

    node: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    differs: Mapping[str, Difference] = field(default_factory=dict)  # by role
    obstacles: tuple[Mapping[str, Any], ...] = ()  # as `hpcforge.node.answer_types.ObstacleAnswer`
    accounts: Accounts | None = None  # None: not reported
    reads: Mapping[str, str | None] = field(default_factory=dict)  # text by path, None for a missing file
    answers: Mapping[str, str] = field(default_factory=dict)  # output by name of the requested commands
    python: bool = True
    unreachable: str | None = None
    reason: str | None = None  # the kind of failure, as in an Event
    receipt: Mapping[str, Any] | None = None  # as in `hpcforge.node`; None: not reported
    at_work: Mapping[str, Any] | None = None  # another run in progress on the node
    reverted: tuple[Mapping[str, Any], ...] = ()  # guarded changes that failed or were not confirmed
    armed: tuple[Mapping[str, Any], ...] = ()  # guarded changes that the node reverts unless they are confirmed
    clock: Span | None = None  # against this host's; None: not reported
    failed: tuple[Mapping[str, Any], ...] = ()  # failed comparisons, as `hpcforge.node.answer_types.Failed`
    warnings: tuple[str, ...] = ()

    @property
    def configured(self) -> bool:
        """Whether the receipt records an earlier run, or is damaged."""
        return bool(self.receipt and (self.receipt.get("run") or self.receipt.get("trouble")))

    @property
    def basis(self) -> Mapping[str, str]:
        """Return a digest of each part that a plan for this node depends on: a role, the receipt, obstacles.

        Messages do not count: a failed check may print lines in another order each time. A plan can overlook nothing
        on a node that no run has configured, except a run that configures it meanwhile.
        """
        if not self.configured:
            return _NO_BASIS
        receipt = self.receipt or {}
        parts = {
            **{f"role {role}": _without_words(difference) for role, difference in self.differs.items()},
            "its record of roles": [receipt.get("surplus"), receipt.get("unowned")],
            "what keeps work from it": [_list_names(self.obstacles), _list_names(self.failed)],
        }
        return {name: _digest(part) for name, part in parts.items()}


def _without_words(difference: Difference) -> Difference:
    return {**difference, "checks": [check["name"] for check in difference.get("checks", ())]}


def _list_names(several: Sequence[Difference]) -> list[list[str]]:
    return [[item["role"], item["kind"], item["name"]] for item in several]


def _digest(part: object) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()


def taken_back(reversal: Mapping[str, Any]) -> str:
    """Return an entry of `Observation.reverted` in words, with the first line of its reason."""
    reason = str(reversal.get("why")).partition("\n")[0][:_SHOWN]
    return f"an earlier change of {reversal.get('role')} was reverted by the node: {reason}"


def absent(resources: Sequence[Resource]) -> dict[str, list[dict[str, Any]]]:
    """Return the answer of a node that lacks all these resources."""
    return by_kind(resources, [_absent(KINDS[resource.kind].key, resource.named) for resource in resources])


@lru_cache(maxsize=4096)  # nodes of a cluster lack the same
def _absent(key: str, name: str) -> dict[str, Any]:
    return {key: name, "exists": False}


def nothing_there(role: DesiredRole) -> Difference:
    """Return the difference of a node that lacks all of a role: for first contact, before the node can answer."""
    return {
        "role": role.role,
        "packages": list(role.packages),
        "removes": [{"name": name, "by": list(role.packages)} for name in role.replaces],
        "unforeseen": list(role.packages),
        **absent(role.resources),
        "units": [
            {"name": u.name, "enabled": False, "active": "inactive", "restart_pending": False} for u in role.units
        ],
        "checks": [{"name": c.name, "detail": "not run yet"} for c in role.checks],
        "opaque": {"digest": None} if role.opaque else None,
    }
