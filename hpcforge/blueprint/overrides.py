"""Which nodes of a group have an override, and which GPUs a node has: decided here and nowhere else. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.hardware import GpusSection

if TYPE_CHECKING:
    from hpcforge.blueprint.hardware import Server
    from hpcforge.blueprint.schema import NodeGroup, Override


def alike(key: str, overrides: Mapping[str, Override]) -> Iterator[tuple[tuple[str, ...], Override | None]]:
    """Yield the group's nodes without an override together, where there are any, then each node that has one."""
    names = hostlist.expand(key)
    plain = tuple(name for name in names if name not in overrides)
    if plain:
        yield plain, None
    yield from (((name,), overrides[name]) for name in names if name in overrides)


def gpus_of(group: NodeGroup, override: Override | None, server: Server) -> GpusSection | None:
    """Return what the node's override says, else its group, else what the server model comes with; None: no GPUs."""
    own = override.gpus if override else None
    if own is not None:
        return GpusSection(model=own.model, count=own.count) if own.count else None
    return group.gpus or server.gpus
