"""What hardware a node has: its override's, else its group's, else its server model's. Decided only here. Pure.

Groups set GPUs alone. MIG layouts and shards are written for the GPUs of the group, so their checks ask for the
hardware of a node without an override.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.hardware import GpusSection

if TYPE_CHECKING:
    from hpcforge.blueprint.hardware import Server
    from hpcforge.blueprint.schema import NodeGroup, Override

FACTS = ("sockets", "cores_per_socket", "threads_per_core", "memory_gib")  # that an override may set, beside GPUs


@dataclass(frozen=True, eq=False)
class NodeHardware:
    """The hardware of a node, or of nodes that are alike."""

    server: Server  # the model, with the facts of the override; its `gpus` are still those that it is sold with
    gpus: GpusSection | None  # that the node has; None: none
    overridden: frozenset[str]  # the facts that the override sets, and "gpus"


def alike(key: str, overrides: Mapping[str, Override]) -> Iterator[tuple[tuple[str, ...], Override | None]]:
    """Yield the group's nodes without an override together, where there are any, then each node that has one."""
    names = hostlist.expand(key)
    plain = tuple(name for name in names if name not in overrides)
    if plain:
        yield plain, None
    yield from (((name,), overrides[name]) for name in names if name in overrides)


def hardware_of(group: NodeGroup, override: Override | None, server: Server) -> NodeHardware:
    """Return what a node has: by its override, else its group, else the server model."""
    if override is None:
        return NodeHardware(server, gpus_of(group, None, server), frozenset())
    said = {fact: value for fact in FACTS if (value := getattr(override, fact)) is not None}
    overridden = frozenset(said) | ({"gpus"} if override.gpus else set())
    return NodeHardware(server.model_copy(update=said), gpus_of(group, override, server), overridden)


def gpus_of(group: NodeGroup, override: Override | None, server: Server) -> GpusSection | None:
    """Return what the node's override says, else its group, else what the server model comes with; None: no GPUs."""
    own = override.gpus if override else None
    if own is not None:
        return GpusSection(model=own.model, count=own.count) if own.count else None
    return group.gpus or server.gpus
