"""Shards: GPUs that several jobs share, one job for each shard, and a blueprint's errors with them. Pure.

Slurm hands out a GPU either whole or by shards, and nothing keeps the jobs on one apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.sections.gpus import gpus_named
from hpcforge.blueprint.sections.nodes import NodeGroup, gpus_of
from hpcforge.blueprint.sections.slurm import SlurmSection, Tres
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.visible_nodes import NamedNodes
from hpcforge.catalog import Catalog
from hpcforge.cluster.mig import named_findings

_APART = "Slurm bills GPUs and shards separately"


def shards(declared: Mapping[str, int], count: int) -> tuple[int, ...]:
    """Return the shards of each of `count` GPUs of a node, 0 for none; () if no GPU has any.

    A node that an override gives fewer GPUs has those of the GPUs that it has.
    """
    by_gpu: dict[int, int] = {}
    for gpu_set, of_gpu in declared.items():
        by_gpu |= dict.fromkeys(gpus_named(gpu_set, count), of_gpu)
    counts = tuple(by_gpu.get(index, 0) for index in range(count))
    return counts if any(counts) else ()


def shard_findings(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Yield shared GPUs that do not exist, and wrong settings for shards."""
    groups: dict[str, NodeGroup] = draft.sections["nodes"] or {}
    with_shards = {key: group for key, group in groups.items() if group.shards}
    for key, group in with_shards.items():
        if draft.intact("nodes", key) and draft.intact("parts") and group.hardware in catalog.servers:
            yield from _group(("nodes", key, "shards"), group, catalog)
    slurm: SlurmSection | None = draft.sections["slurm"]
    if slurm is None or not draft.intact("nodes") or not draft.intact("slurm"):
        return
    if with_shards:
        yield from _free(draft, slurm, with_shards)
    else:
        yield from _uncounted(slurm)


def _group(loc: Loc, group: NodeGroup, catalog: Catalog) -> Iterator[Finding]:
    gpus = gpus_of(group, None, catalog.servers[group.hardware])
    if gpus is None:
        hint = "add `gpus:` to this group, or remove `shards`"
        yield Finding(loc, "the group has no GPUs to share", hint, key=True)
        return
    if "worker" not in group.functions:
        yield Finding(loc, "these nodes run no jobs that could share GPUs", "remove `shards`", key=True)
    if group.mig:
        message = "a group can use `mig` or `shards` for its GPUs, not both"
        yield Finding(loc, message, "remove one of the two, or make two groups of these nodes", key=True)
    first_line: dict[int, str] = {}
    for gpu_set in group.shards:
        yield from named_findings((*loc, gpu_set), gpu_set, gpus.count, first_line, "its shards")


def _free(draft: Draft, slurm: SlurmSection, with_shards: Mapping[str, NodeGroup]) -> Iterator[Finding]:
    """Yield partitions with shared GPUs that bill GPUs and not shards, or shards and not GPUs."""
    declared = NamedNodes(draft)
    for name, partition in slurm.partitions.items():
        billing = partition.billing
        nodes = declared.named(draft, (), partition.nodes, workers=True)[0] or ()
        if billing is None or not any(declared.group_of[node] in with_shards for node in nodes):
            continue
        loc = ("slurm", "partitions", name, "billing")
        if billing.gpu and billing.shard is None:
            hint = "add `shard`, for example the GPU's value divided by its shards; or 0"
            yield Finding(loc, f"jobs on shards pay nothing: {_APART}", hint, "warning", key=True)
        if billing.shard and billing.gpu is None:
            hint = "add `gpu`, for example a shard's value times the shards of a GPU; or 0"
            yield Finding(loc, f"jobs on whole GPUs pay nothing: {_APART}", hint, "warning", key=True)


def _uncounted(slurm: SlurmSection) -> Iterator[Finding]:
    """Report settings that count shards where there are none: slurmdbd lacks them then, and sacctmgr refuses."""
    for loc, section in _sections(("slurm",), slurm):
        if isinstance(section, Tres) and section.shard is not None:
            hint = "set `shards` of a group of workers, or remove this"
            yield Finding((*loc, "shard"), "no worker has shards", hint, key=True)


def _sections(loc: Loc, section: Section) -> Iterator[tuple[Loc, Section]]:
    """Yield a section and all in it, with their places."""
    yield loc, section
    for key in type(section).model_fields:
        value = getattr(section, key)
        inside = value if isinstance(value, dict) else {}
        for part_loc, part in (((*loc, key), value), *(((*loc, key, name), part) for name, part in inside.items())):
            if isinstance(part, Section):
                yield from _sections(part_loc, part)
