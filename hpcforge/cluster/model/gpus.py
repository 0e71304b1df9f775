"""GPUs of nodes, and stand-ins for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from hpcforge.cluster.mig import Gres, Layout, gres


@dataclass(frozen=True)
class Gpus:
    """The GPUs of one node. `fake` ones are character devices for rehearsals that compute nothing."""

    model: str
    count: int
    mig: Layout = ()  # MIG instances of each GPU; (): undivided GPUs
    vendor: Literal["none", "nvidia", "amd"] = "nvidia"
    shards: tuple[int, ...] = ()  # jobs that can share each GPU; 0: it is not shared; (): none is shared

    @property
    def fake(self) -> bool:
        """True for a rehearsal's stand-ins."""
        return self.model == "fake"

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Device files, one a GPU, in index order."""
        stem, first = self._files
        return tuple(f"{stem}{number}" for number in range(first, first + self.count))

    @property
    def device_range(self) -> str:
        """The same as Slurm writes them, `/dev/nvidia[0-7]`."""
        stem, first = self._files
        return f"{stem}{first}" if self.count == 1 else f"{stem}[{first}-{first + self.count - 1}]"

    @property
    def _files(self) -> tuple[str, int]:
        """The prefix of device files and the first number: AMD's are render nodes (DRM)."""
        if self.fake:
            return "/dev/fakegpu", 0
        return ("/dev/dri/renderD", 128) if self.vendor == "amd" else ("/dev/nvidia", 0)

    @cached_property
    def gres(self) -> tuple[Gres, ...]:
        """The resources that Slurm assigns to jobs."""
        return gres(self.model, self.mig) if self.mig else tuple(Gres(self.model, (device,)) for device in self.devices)

    @cached_property
    def types(self) -> tuple[tuple[str, int], ...]:
        """The types of that, with how many there are."""
        return tuple(Counter(gres.type for gres in self.gres).items())

    @cached_property
    def slurm_gres(self) -> str:
        """All resources of a node in the form of slurm.conf: `gpu:h100:8,shard:16`."""
        kinds = [f"gpu:{type_}:{count}" for type_, count in self.types]
        shards = sum(count for _, count in self.shared)
        return ",".join([*kinds, f"shard:{shards}"] if self.shared else kinds)

    @cached_property
    def shared(self) -> tuple[tuple[str, int], ...]:
        """The device files of shared GPUs, each with its shards."""
        return tuple((file, count) for file, count in zip(self.devices, self.shards, strict=False) if count)

    @cached_property
    def links(self) -> tuple[str, ...]:
        """The files that a node makes for its MIG instances."""
        return tuple(dict.fromkeys(file for gres in self.gres for file in gres.files)) if self.mig else ()

    def most_ranks(self, cpus: int) -> int:  # noqa: ARG002
        """Return the highest number of a smoke test's ranks on a node with `cpus` for jobs."""
        return self.count


@dataclass(frozen=True)
class StandInGpus(Gpus):
    """Stand-ins for GPUs in a rehearsal: the same number of character devices, which Slurm has under the real model."""

    @property
    def fake(self) -> bool:
        """True: they compute nothing."""
        return True

    def most_ranks(self, cpus: int) -> int:
        """Return at most the number of CPUs: the ranks compute there."""
        return min(self.count, cpus)


@dataclass(frozen=True)
class GpuModel:
    """Catalog values of a GPU model that are compared with its driver; None or empty: not known."""

    driver_names: tuple[str, ...] = ()  # the driver's names for it
    memory_gb: float | None = None  # the maker's number
    nvlinks: int | None = None
    pcie_lanes: int | None = None
    pcie_generation: int | None = None
    power_w: float | None = None  # its highest power
