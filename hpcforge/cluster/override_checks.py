"""What nodes lose by an override to other GPUs: MIG instances and shards that their group has. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hpcforge.blueprint import schema as s
from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.gpus import gpus_named
from hpcforge.blueprint.hardware import GpusSection
from hpcforge.blueprint.overrides import alike, gpus_of
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.catalog import Catalog
from hpcforge.cluster.shards import shards

_Counted = Callable[[s.NodeGroup, GpusSection, GpusSection | None], int]


def override_findings(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Warn of each override whose node gets fewer MIG instances or shards than the other nodes of its group."""
    if not all(map(draft.intact, ("nodes", "overrides", "parts", "hardware"))):
        return
    groups: dict[str, s.NodeGroup] = draft.sections["nodes"] or {}
    overrides: dict[str, s.Override] = draft.sections["overrides"] or {}
    for key, group in groups.items():
        if (group.mig or group.shards) and group.hardware in catalog.servers:
            for names, override in alike(key, overrides):
                if override and override.gpus:
                    yield from _lost(names[0], key, group, override, catalog)


def _lost(name: str, key: str, group: s.NodeGroup, override: s.Override, catalog: Catalog) -> Iterator[Finding]:
    server = catalog.servers[group.hardware]
    usual, own = gpus_of(group, None, server), gpus_of(group, override, server)
    if usual is None:
        return  # mig_findings and shard_findings say so
    kinds: tuple[tuple[str, str, _Counted], ...] = (
        ("mig", "MIG instances", _instances),
        ("shards", "shards", _shards),
    )
    for field, what, counted in kinds:
        there, left = counted(group, usual, usual), counted(group, usual, own)
        if left < there:
            message = (
                f"{quote(name)} gets {left or 'none'} of the {there} {what} of a node of {quote(key)}: "
                f"its override says {_said(own)}, and `{field}` of {quote(key)} is for {_said(usual)}"
            )
            if own is None or own.model == usual.model:
                hint = "ignore this if the node has no more; jobs that ask for them run on other nodes"
            else:
                hint = f"to have {what} on it, make it a separate group, with `{field}` for its GPUs"
            yield Finding(("overrides", name, "gpus"), message, hint, "warning", key=True)


def _said(gpus: GpusSection | None) -> str:
    return f"{gpus.count} x {gpus.model}" if gpus else "no GPUs"


def _instances(group: s.NodeGroup, usual: GpusSection, gpus: GpusSection | None) -> int:
    """How many a node of these GPUs has: none of another model than the group's, as `layout` decides."""
    if gpus is None or gpus.model != usual.model:
        return 0
    by_gpu: dict[int, int] = {}
    for named, counts in group.mig.items():
        by_gpu |= dict.fromkeys(gpus_named(named, gpus.count), sum(counts.values()))
    return sum(many for index, many in by_gpu.items() if index < gpus.count)


def _shards(group: s.NodeGroup, _: GpusSection, gpus: GpusSection | None) -> int:
    return sum(shards(group.shards, gpus.count)) if gpus else 0
