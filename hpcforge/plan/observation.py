"""The answers of nodes: differences from the desired state, and facts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpcforge.kinds import KINDS
from hpcforge.kinds.resource import Resource
from hpcforge.plan.clocks import Span
from hpcforge.plan.desired import DesiredRole, by_kind

_SHOWN = 300  # characters of why a change was taken back
Difference = Mapping[str, Any]  # as in `hpcforge.node`: a role, and only what differs from what is wanted of it


@dataclass(frozen=True)
class Accounts:
    """Numbers by name: of a node's own users and groups, and of the owners of what is in shared folders there."""

    users: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    owner_users: Mapping[str, int] = field(default_factory=dict)
    owner_groups: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """One node's answer. `unreachable` says why there is none; `python` is False where first contact is still due."""

    node: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    differs: Mapping[str, Difference] = field(default_factory=dict)  # by role
    obstacles: tuple[Mapping[str, Any], ...] = ()  # as `hpcforge.node.answer_types.ObstacleAnswer`
    accounts: Accounts | None = None  # None: the node has not said
    reads: Mapping[str, str | None] = field(default_factory=dict)  # text by path, None where there is no such file
    answers: Mapping[str, str] = field(default_factory=dict)  # output of the commands that were asked for
    python: bool = True
    unreachable: str | None = None
    reason: str | None = None  # the kind of unreachable, as an Event has it
    receipt: Mapping[str, Any] | None = None  # as in `hpcforge.node`; None: the node has not said
    at_work: Mapping[str, Any] | None = None  # another run that goes on there
    reverted: tuple[Mapping[str, Any], ...] = ()  # guarded changes that failed, or that nobody confirmed
    armed: tuple[Mapping[str, Any], ...] = ()  # guarded changes that the node will take back unless they are confirmed
    clock: Span | None = None  # against this host's; None: the node has not said
    failed: tuple[
        Mapping[str, Any], ...
    ] = ()  # what the node could not compare, as `hpcforge.node.answer_types.Failed`
    warnings: tuple[str, ...] = ()

    @property
    def configured(self) -> bool:
        """A run has been here before, as far as the node can tell."""
        return bool(self.receipt and (self.receipt.get("run") or self.receipt.get("trouble")))

    @property
    def basis(self) -> dict[str, str]:
        """Return a digest of each part that a plan for this node depends on: a role, or what else there is.

        Facts count and no words: what a failed check prints may be another order of lines each time. A node that no run
        has configured has nothing that a plan could overlook, except that one configures it meanwhile.
        """
        if not self.configured:
            return {}
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
    """One of `Observed.reverted` in words, with the first line of why."""
    reason = str(reversal.get("why")).partition("\n")[0][:_SHOWN]
    return f"an earlier change of {reversal.get('role')} was reverted by the node: {reason}"


def absent(resources: Sequence[Resource]) -> dict[str, list[dict[str, Any]]]:
    """Return the answer of a node that has none of these."""
    return by_kind(resources, ({KINDS[resource.kind].key: resource.named, "exists": False} for resource in resources))


def nothing_there(role: DesiredRole) -> Difference:
    """Return the difference of a node that has nothing of a role: for first contact, before the node can answer."""
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
