"""The sections `nodes` and `overrides`, and the hardware that a node has after both. Pure.

Groups set GPUs alone. MIG layouts and shards are written for the GPUs of the group, so their checks ask for the
hardware of a node without an override.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import hostlist
from hpcforge.blueprint import values as v
from hpcforge.blueprint.lab_kinds import LabKind
from hpcforge.blueprint.section import LazySection, Section
from hpcforge.blueprint.sections.gpus import GpuSet, Instances, MigProfile, Shards
from hpcforge.blueprint.sections.hardware import GpusSection
from hpcforge.blueprint.sections.site import Units

if TYPE_CHECKING:
    from hpcforge.blueprint.sections.hardware import Server


Function = Literal["head", "login", "storage", "worker"]  # as in hpcforge.cluster.model


GpuFault = Literal[
    "gpu-driver", "gpu-driver-version", "gpu-model", "gpu-memory", "gpu-ecc", "gpu-rows", "gpu-nvlinks",
    "gpu-fabric", "gpu-pcie-width", "gpu-pcie-generation", "gpu-power-limit", "gpu-mig",
]  # fmt: skip


class LabSection(Section):
    """A rehearsal on this machine."""

    lab: LabKind = Field(
        description="The kind of the rehearsal's nodes: nspawn, containers with systemd; vm, virtual machines with a "
        "kernel of their own; vagrant, virtual machines that Vagrant starts."
    )


class OverrideGpus(Section):
    """The GPUs that one node really has."""

    model: Annotated[v.ModelName, v.OfCatalog("gpus")] = Field(description="GPU model in the catalog.")
    count: v.Whole = Field(ge=0, le=16, description="GPUs in this node; 0: none.")


_Partition = Annotated[
    str,
    v.Matches(
        r"(?!/(?:boot|usr|etc|bin|sbin|lib|lib64|dev|proc|sys|run|root)(?:/|$))(?:/[A-Za-z0-9_-]{1,100}){1,20}",
        "a mount point of a partition: /var or a folder below it, /home, /tmp, /opt, /srv or the site's own",
        "/var",
    ),
]


class SystemDiskSection(Section):
    """Where the installer of `apply --install` writes the operating system: docs/bare-metal.md."""

    drives: Annotated[v.Whole, Field(ge=1, le=2)] = Field(
        1, description="2: two disks of one size, as mirrors (RAID 1)."
    )
    partitions_gib: Annotated[dict[_Partition, Annotated[v.Whole, Field(ge=1, le=65_536)]], Field(max_length=16)] = (
        Field({}, description="Sizes of further partitions by mount point, GiB; / gets the rest.")
    )


class NodeGroup(Section):
    """Machines that are alike."""

    functions: tuple[Function, ...] = Field(min_length=1, description="Functions of the nodes, one or more.")
    hardware: Annotated[v.ModelName, v.OfCatalog("servers")] = Field(description="Server model in the catalog.")
    gpus: GpusSection | None = Field(None, description="GPUs of each node; default: the server model's built-in GPUs.")
    mig: Annotated[dict[GpuSet, Annotated[dict[MigProfile, Instances], Field(min_length=1)]], LazySection()] = Field(
        {},
        description="MIG instances of each node's GPUs: by GPUs (all, 0-3, 0,2) the number of instances of each "
        "profile on one GPU. A GPU that is not named stays whole.",
    )
    shards: Annotated[dict[GpuSet, Shards], LazySection()] = Field(
        {},
        description="Shards of each node's GPUs, for jobs that share a GPU: by GPUs (all, 0-3, 0,2) the number on "
        "one GPU, which is the number of jobs that can share it. A GPU that is not named is not shared. Slurm "
        "23.11.5 or later.",
    )
    features: tuple[v.Feature, ...] = Field(
        (), description="Slurm features of each node, which jobs ask for with `--constraint`."
    )
    weight: v.Whole | None = Field(
        None,
        ge=0,
        le=4_294_967_293,
        description="Slurm's weight of each node: jobs get the nodes with the lowest first; default: 1.",
    )
    system_disk: SystemDiskSection = Field(
        SystemDiskSection.model_construct(),
        description="Disks and partitions of the operating system that hpcforge installs.",
    )
    addresses: v.Ipv4Hostlist | None = Field(
        None, description="IPv4 addresses in the order of the names, as a hostlist; default: from the inventory."
    )
    rack: v.RackHostlist | None = Field(
        None, description="Racks as a hostlist; nodes fill them in the order of the names. Default: proposed."
    )
    u: Units | None = Field(
        None,
        min_length=1,
        description="Lowest rack unit of each node in a rack; the first rack gets one node for each entry.",
    )


class Override(Section):
    """What one node really has, and why."""

    sockets: v.Sockets | None = Field(None, description="Processor sockets.")
    cores_per_socket: v.CoresPerSocket | None = Field(None, description="Cores in one socket.")
    threads_per_core: v.ThreadsPerCore | None = Field(None, description="Hardware threads in one core.")
    memory_gib: v.MemoryGib | None = Field(None, description="Memory, GiB.")
    gpus: OverrideGpus | None = Field(None, description="GPUs.")
    release: Annotated[v.Version, v.OfCatalog("releases")] | None = Field(
        None, description="Release of the distribution, where the node waits for its upgrade. See docs/operations.md."
    )
    accept: tuple[GpuFault, ...] = Field(
        (), description="GPU shortfalls that are accepted: the node still gets jobs. See docs/software.md."
    )
    reason: v.Sentence = Field(description="Why this node differs; shown with every message about the override.")


FACTS = ("sockets", "cores_per_socket", "threads_per_core", "memory_gib")  # overrides may set these, and GPUs


@dataclass(frozen=True, eq=False)
class NodeHardware:
    """The hardware of a node, or of nodes that are alike."""

    server: Server  # the model with the facts of the override; its `gpus` stay those of the model
    gpus: GpusSection | None  # GPUs of the node; None: it has none
    overridden: frozenset[str]  # the overridden facts, and "gpus"


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
    overrides = {fact: value for fact in FACTS if (value := getattr(override, fact)) is not None}
    overridden = frozenset(overrides) | ({"gpus"} if override.gpus else set())
    return NodeHardware(server.model_copy(update=overrides), gpus_of(group, override, server), overridden)


def gpus_of(group: NodeGroup, override: Override | None, server: Server) -> GpusSection | None:
    """Return what the node's override says, else its group, else what the server model comes with; None: no GPUs."""
    own = override.gpus if override else None
    if own is not None:
        return GpusSection(model=own.model, count=own.count) if own.count else None
    return group.gpus or server.gpus
