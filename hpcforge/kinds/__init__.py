"""The kinds of resources that a node can have, in the order in which they are created there.

A kind is a row here and two modules of its name. `hpcforge.kinds.NAME` defines it: a frozen dataclass with the fields
that role.yaml may set and the node program receives, and the words for it in plans. `hpcforge.node.kinds.NAME` is its
handler on the node. All other code walks this table: roles, diff, plan text, stages, receipts, removal. Standard
library, Python 3.9 syntax and `hpcforge.wire_types` only, since the table is sent to nodes; the classes are not, only
the schemas of their fields (`hpcforge.node.schemas`).

Packages come after the early kinds and before the others; units and checks come last. Those have phases of their own
(one transaction, role by role) and are not kinds.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple


class ResourceKind(NamedTuple):
    """A kind of resource."""

    name: str  # the plural in role.yaml, requests and receipts
    singular: str  # the singular in events
    key: str  # the field that names one
    early: bool = False  # put before packages; else only resources with `early`
    late: bool = (
        False  # it needs what runs, here or on another node: put once what its role needs is done, before units
    )
    sources: bool = False  # package sources: the lists are read again after a change


TABLE = (
    ResourceKind("accounts", "account", "name", early=True),
    ResourceKind("groups", "group", "name", early=True),
    ResourceKind("sources", "package source", "name", early=True, sources=True),
    ResourceKind("pins", "pin", "name", early=True, sources=True),
    ResourceKind("memberships", "membership", "name"),
    ResourceKind("directories", "directory", "path"),
    ResourceKind("files", "file", "path"),
    ResourceKind("links", "link", "path"),
    ResourceKind("sysctls", "sysctl", "name"),
    ResourceKind("kernel_arguments", "kernel arguments", "name"),
    ResourceKind("holds", "hold", "name"),
    ResourceKind("timers", "timer", "name"),
    ResourceKind("volumes", "volume", "name", late=True),
    ResourceKind("mounts", "mount", "path", late=True),
    ResourceKind("downloads", "download", "path", late=True),
    ResourceKind("associations", "association", "name", late=True),
    ResourceKind("reservations", "reservation", "name", late=True),
)
ARRAYS: Mapping[int, int] = {0: 2, 1: 2, 6: 4}  # the fewest drives of each supported level of volumes (mdadm(8))
# Modules of `hpcforge.node.package_manager`. A node uses the first whose program it has.
PACKAGE_MANAGERS: Mapping[str, str] = {"apt": "/usr/bin/apt-get"}
KINDS: Mapping[str, ResourceKind] = {kind.name: kind for kind in TABLE}


def spare(level: int, drives: int) -> int:
    """Return how many drives of an array may fail without data loss: level 0 none, 1 all but one, 6 two (md(4))."""
    return {0: 0, 1: drives - 1, 6: 2}[level] if drives > 1 else 0


def sent(kind: str) -> Any:
    """Return the class of a kind's resources as sent to nodes; imported on request."""
    module = importlib.import_module(f"hpcforge.kinds.{kind}")
    return getattr(module, "SENT", module.RESOURCE)
