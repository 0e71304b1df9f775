"""The types of a resolved cluster: the merged data of a blueprint, an inventory and the catalog. Pure.

A `Cluster` is the only data that roles see (as `cluster` and `node` in their templates), so its attribute names are a
contract with `roles/`. Everything is frozen; nodes keep the order in which the blueprint names them. The types may use
those of `hpcforge.blueprint`, `hpcforge.catalog`, `hpcforge.design` and `hpcforge.launchers`. Defaults are applied in
`hpcforge.cluster.resolve`, not here.
"""

from __future__ import annotations

from hpcforge.cluster.model.acceptance import (
    Acceptance,
    ImportedModule,
    Measure,
    SmokeTest,
    SmokeTestProgram,
    Threshold,
    TransportRule,
)
from hpcforge.cluster.model.cluster import Cluster, Rollout
from hpcforge.cluster.model.gpus import GpuModel, Gpus, StandInGpus
from hpcforge.cluster.model.network import FabricOf, Network, OwnLinks
from hpcforge.cluster.model.node import FUNCTIONS, HOST_KEY_TYPES, Access, Bmc, Function, Jump, Node, SystemDisk
from hpcforge.cluster.model.slurm import Partition, Slurm, SlurmAssociation, SlurmReservation
from hpcforge.cluster.model.software import (
    Framework,
    Names,
    OperatingSystem,
    Platform,
    PyTorch,
    Service,
    SiteRole,
    Wheel,
)

__all__ = [
    "FUNCTIONS",
    "HOST_KEY_TYPES",
    "Acceptance",
    "Access",
    "Bmc",
    "Cluster",
    "FabricOf",
    "Framework",
    "Function",
    "GpuModel",
    "Gpus",
    "ImportedModule",
    "Jump",
    "Measure",
    "Names",
    "Network",
    "Node",
    "OperatingSystem",
    "OwnLinks",
    "Partition",
    "Platform",
    "PyTorch",
    "Rollout",
    "Service",
    "SiteRole",
    "Slurm",
    "SlurmAssociation",
    "SlurmReservation",
    "SmokeTest",
    "SmokeTestProgram",
    "StandInGpus",
    "SystemDisk",
    "Threshold",
    "TransportRule",
    "Wheel",
]
