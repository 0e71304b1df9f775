"""MIG: instances of NVIDIA GPUs, which layouts fit, and their configuration in Slurm. Pure.

A GPU's memory is some slices (eight), and an instance takes some that lie together; the catalog has for each profile
how many, and where they may begin. Which slices are taken decides what still fits, so that each instance gets its place
here, and is never left to the order in which instances are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.sections.gpus import MigShape, gpus_named
from hpcforge.blueprint.sections.nodes import gpus_of
from hpcforge.blueprint.validate import Draft, Finding

if TYPE_CHECKING:
    from hpcforge.blueprint.reader import Loc
    from hpcforge.blueprint.sections.nodes import NodeGroup
    from hpcforge.catalog import Catalog

FOLDER = "/dev/hpcforge-mig"  # links to devices, named by their place in the layout


@dataclass(frozen=True)
class MigInstance:
    """An instance on a GPU, by its profile, and the memory slice that it begins at."""

    profile: str  # "1g.10gb"
    start: int


@dataclass(frozen=True)
class Gres:
    """A unit that jobs can get, by its type in Slurm, and its device files."""

    type: str
    files: tuple[str, ...]


Layout = tuple[tuple[MigInstance, ...], ...]  # by GPU, in the order of nvidia-smi; () for a GPU that stays undivided


def gres(model: str, layout: Layout) -> tuple[Gres, ...]:
    """Return a node's resources in Slurm with this layout, GPU by GPU.

    The driver numbers GPUs and instances differently at each start. So the files are links, which the node
    makes when it has made the instances: for the GPU, the instance (gi), and its compute instance (ci).
    """
    resources: list[Gres] = []
    for index, instances in enumerate(layout):
        device = f"{FOLDER}/gpu{index}"
        if not instances:
            resources.append(Gres(model, (device,)))
        for place, instance in enumerate(instances):
            files = (device, *(f"{device}.{place}.{kind}" for kind in ("gi", "ci")))
            # A type of Slurm cannot have a plus.
            resources.append(Gres(f"{model}_{instance.profile.replace('+', '.')}", files))
    return tuple(resources)


def placed(counts: Mapping[str, int], shapes: Mapping[str, MigShape]) -> tuple[MigInstance, ...] | None:
    """Return the placement of instances on one GPU, the largest first; None: they do not fit."""
    if any(
        shapes[name].max_instances is not None and count > (shapes[name].max_instances or 0)
        for name, count in counts.items()
    ):
        return None
    order = sorted(counts, key=lambda name: (-shapes[name].size, len(shapes[name].placements), name))
    return _rest([name for name in order for _ in range(counts[name])], shapes, 0)


def _rest(
    names: Sequence[str], shapes: Mapping[str, MigShape], used: int, least: int = 0
) -> tuple[MigInstance, ...] | None:
    """Place the instances beside the `used` slices (bits). Of equal ones each begins after the one before it."""
    if not names:
        return ()
    name, *others = names
    for start in shapes[name].placements:
        slices = ((1 << shapes[name].size) - 1) << start
        if start < least or slices & used:
            continue
        after = start + 1 if others and others[0] == name else 0
        if (rest := _rest(others, shapes, used | slices, after)) is not None:
            return (MigInstance(name, start), *rest)
    return None


def layout(group: NodeGroup, model: str | None, count: int, catalog: Catalog) -> Layout:
    """Return the layout for a node's number of GPUs of a model; () if none is set, or only for another model.

    A node that an override gives fewer GPUs keeps the layout of those that it has.
    """
    if not group.mig or model is None or model != _model(group, catalog):
        return ()
    shapes = catalog.gpus[model].mig or {}
    by_gpu: dict[int, tuple[MigInstance, ...]] = {}
    for gpu_set, counts in group.mig.items():
        instances = placed(counts, shapes)
        assert instances is not None  # mig_findings has reported it
        by_gpu |= dict.fromkeys(gpus_named(gpu_set, count), instances)
    return tuple(by_gpu.get(index, ()) for index in range(count))


def _model(group: NodeGroup, catalog: Catalog) -> str | None:
    gpus = gpus_of(group, None, catalog.servers[group.hardware])
    return gpus.model if gpus else None


# Errors in the layouts of a blueprint.


def mig_findings(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Yield layouts that GPUs cannot have, each with the nearest that they can."""
    with_mig = {key: group for key, group in (draft.sections["nodes"] or {}).items() if group.mig}
    for key, group in with_mig.items():
        if draft.intact("nodes", key) and draft.intact("parts") and group.hardware in catalog.servers:
            yield from _group(("nodes", key, "mig"), group, catalog)
    slurm = draft.sections["slurm"]
    if with_mig and slurm and draft.intact("slurm", "enforce") and "gpus" not in slurm.enforce:
        message = "Slurm must limit jobs to their MIG instances: CUDA uses the first that it sees"
        yield Finding(("slurm", "enforce"), message, "add gpus, or remove `mig`")


def _group(loc: Loc, group: NodeGroup, catalog: Catalog) -> Iterator[Finding]:
    gpus = gpus_of(group, None, catalog.servers[group.hardware])
    if gpus is None:
        yield Finding(loc, "the group has no GPUs for MIG", "add `gpus:` to this group, or remove `mig`", key=True)
        return
    if gpus.model not in catalog.gpus:
        return  # another check has reported it
    shapes = catalog.gpus[gpus.model].mig
    if not shapes:
        able = ", ".join(name for name, gpu in catalog.gpus.items() if gpu.mig)
        yield Finding(
            loc, f"{quote(gpus.model)} does not support MIG", f"GPUs with MIG in the catalog: {able}", key=True
        )
        return
    first_line: dict[int, str] = {}
    for gpu_set, counts in group.mig.items():
        yield from named_findings((*loc, gpu_set), gpu_set, gpus.count, first_line, "its instances")
        unknown = [name for name in counts if name not in shapes]
        for name in unknown:
            message = f"{quote(gpus.model)} has no MIG profile {quote(name)}"
            yield Finding((*loc, gpu_set, name), message, f"did you mean {quote(_like(name, shapes))}?", key=True)
        if not unknown and placed(counts, shapes) is None:
            yield _too_much((*loc, gpu_set), gpus.model, counts, shapes)


def _like(name: str, shapes: Iterable[str]) -> str:
    """Return the profile with the nearest number of compute slices, then the nearest memory."""

    def numbers(profile: str) -> tuple[int, int]:
        compute, memory = profile.partition("gb")[0].split("g.")
        return int(compute), int(memory)

    compute, memory = numbers(name)
    return min(shapes, key=lambda shape: (abs(numbers(shape)[0] - compute), abs(numbers(shape)[1] - memory)))


def named_findings(loc: Loc, gpu_set: str, count: int, owners: dict[int, str], subject: str) -> Iterator[Finding]:
    """Yield GPUs that do not exist, and GPUs that another line has; add the others to `owners`."""
    indices = gpus_named(gpu_set, count)
    beyond = [index for index in indices if index >= count]
    twice = [index for index in indices if index in owners]
    if beyond:
        message = f"GPU {beyond[0]} does not exist: a node of this group has {count}"
        yield Finding(loc, message, f"use 0 to {count - 1}" if count > 1 else "it is 0", key=True)
    elif twice:
        yield Finding(loc, f"GPU {twice[0]} already has {subject} from {quote(owners[twice[0]])}", key=True)
    owners |= dict.fromkeys(indices, gpu_set)


def _too_much(loc: Loc, model: str, counts: Mapping[str, int], shapes: Mapping[str, MigShape]) -> Finding:
    request = ", ".join(f"{count} x {name}" for name, count in counts.items())
    slices = sum(count * shapes[name].size for name, count in counts.items())
    available = max(shape.size + max(shape.placements) for shape in shapes.values())
    rare = [name for name, count in counts.items() if _too_many(shapes[name], count)]
    if rare:
        reason = f"a GPU supports at most {shapes[rare[0]].max_instances} x {rare[0]}"
    elif slices > available:
        reason = f"they need {slices} of {available} memory slices"
    else:
        reason = "; ".join(
            f"{name} must start at slice {_listed(shapes[name].placements)} and needs {shapes[name].size}"
            for name in counts
        )
    return Finding(
        loc, f"{request} do not fit on one {model}: {reason}", f"the nearest that fits: {_nearest(counts, shapes)}"
    )


def _nearest(counts: Mapping[str, int], shapes: Mapping[str, MigShape]) -> str:
    """Return the largest part of a layout that fits: by memory, then by number of instances."""
    best, fits = (0, 0), dict[str, int]()
    for chosen in product(*(range(min(count, len(shapes[name].placements)), -1, -1) for name, count in counts.items())):
        part = {name: count for name, count in zip(counts, chosen, strict=True) if count}
        worth = (sum(shapes[name].size * count for name, count in part.items()), sum(chosen))
        if worth > best and placed(part, shapes) is not None:
            best, fits = worth, part
    return "{" + ", ".join(f"{name}: {count}" for name, count in fits.items()) + "}"


def _too_many(shape: MigShape, count: int) -> bool:
    return shape.max_instances is not None and count > shape.max_instances


def _listed(starts: Sequence[int]) -> str:
    *others, last = map(str, starts)
    return f"{', '.join(others)} or {last}" if others else last
