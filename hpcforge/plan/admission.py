"""Decide which nodes are fit for jobs: compare observed with declared hardware, and drain or resume in Slurm."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hpcforge.cluster.mig import Layout
from hpcforge.cluster.model import Cluster, GpuModel, Gpus
from hpcforge.plan import gpus as rules
from hpcforge.slurm import nodes

MARK = "hpcforge: "  # hpcforge's drains have it, and hpcforge resumes only these
# slurmctld's own reasons when a node registers with less than slurm.conf declares, the judgement of hpcforge, too.
_SLURM_OWN_REASONS = ("Low RealMemory", "Low CPUs", "Low socket*core", "gres/gpu count", "gres/shard count")

_REPORT_FACT = {"fake": "", "nvidia": "nvml", "amd": "amdgpu"}  # the fact with the driver's report, by kind of GPU


@dataclass(frozen=True, slots=True)
class DeclaredWorker:
    """The hardware that a worker must show to be admitted. `needed_memory_mib` excludes the reserve."""

    node: str
    memory_mib: int
    needed_memory_mib: int
    cpus: int
    gpus: int
    gpu_model: str
    gpu_kind: Literal["fake", "nvidia", "amd"]
    mig: Layout = ()  # the declared instances of its GPUs; none: whole GPUs
    gpu_known: GpuModel = field(default_factory=GpuModel)  # the catalog's entry for its model
    driver: str | None = None  # the version of its GPUs' driver; None: not set
    gets_driver: bool = False  # a role installs that version and checks it
    accepts: tuple[str, ...] = ()  # accepted faults of its GPUs


@dataclass(frozen=True)
class Shortfall:
    """A resource of which a node has less than declared, and the override that accepts it."""

    node: str
    what: str
    declared: str
    observed: str
    override: str
    todo: str = ""  # the remedy, if one is known


@dataclass(frozen=True)
class DrainOrder:
    """A drain or resume of one node in Slurm."""

    node: str
    action: Literal["drain", "resume"]
    reason: str


def declared(cluster: Cluster) -> tuple[DeclaredWorker, ...]:
    """Return the hardware that each worker must show."""
    return tuple(
        DeclaredWorker(
            node=node.name,
            memory_mib=node.memory_mib,
            needed_memory_mib=cluster.job_memory_mib(node),
            cpus=node.cpus,
            gpus=node.gpus.count if node.gpus else 0,
            gpu_model=node.gpus.model if node.gpus else "",
            gpu_kind=_kind(node.gpus),
            mig=node.gpus.mig if node.gpus else (),
            gpu_known=cluster.gpu_models.get(node.gpus.model if node.gpus else "", GpuModel()),
            driver=cluster.driver if node.gpus and node.gpus.vendor == "nvidia" else None,
            gets_driver=cluster.nvidia is not None and cluster.nvidia.on(node),
            accepts=node.accepts,
        )
        for node in cluster.workers
    )


def _kind(gpus: Gpus | None) -> Literal["fake", "nvidia", "amd"]:
    if gpus and gpus.fake:
        return "fake"
    return "amd" if gpus and gpus.vendor == "amd" else "nvidia"


def shortfalls(worker: DeclaredWorker, facts: Mapping[str, Any], gpus_ready: bool) -> tuple[Shortfall, ...]:
    """Return the shortfalls of a worker's facts. `gpus_ready`: device files should exist by now, so they count.

    Before that, only a driver that answers counts. Values that a role sets are not judged here (MIG layout, version of
    an installed driver): the role checks them after its change, and these facts may be older. A node that waits for
    another driver is no worse than before.
    """
    short = []
    memory_mib = int(facts["memory_kib"]) // 1024
    if memory_mib < worker.needed_memory_mib:
        observed = f"{memory_mib / 1024:.1f} GiB"
        short.append(
            Shortfall(
                worker.node,
                "memory",
                f"{worker.memory_mib / 1024:g} GiB ({worker.needed_memory_mib / 1024:g} GiB after the reserve)",
                observed,
                f'{worker.node}: {{memory_gib: {memory_mib // 1024}, reason: "has {observed}"}}',
            )
        )
    if int(facts["cpus"]) < worker.cpus:
        short.append(
            Shortfall(
                worker.node,
                "CPUs",
                str(worker.cpus),
                str(facts["cpus"]),
                f"{worker.node}: {{sockets: 1, cores_per_socket: {facts['cpus']}, threads_per_core: 1, "
                f'reason: "has {facts["cpus"]} CPUs"}}',
            )
        )
    nvml = _driver_report(worker, facts)
    answers = nvml is not None and not nvml["error"]
    return (*short, *(gpu_shortfalls(worker, facts, of_roles=False) if gpus_ready or answers else ()))


def has_to_be_asked_again(worker: DeclaredWorker, facts: Mapping[str, Any]) -> bool:
    """Return whether a worker's driver reported faults. Later work may have fixed them since the observation:
    NVLinks are down until Fabric Manager runs, and its role follows the restart that loads the driver.
    """
    return _driver_report(worker, facts) is not None and bool(gpu_shortfalls(worker, facts, of_roles=False))


def _driver_report(worker: DeclaredWorker, facts: Mapping[str, Any]) -> rules.Nvml | None:
    """Return the report of the declared GPUs' driver, if there is one."""
    report: rules.Nvml | None = facts.get(_REPORT_FACT[worker.gpu_kind]) if worker.gpus else None
    return report


def gpu_shortfalls(worker: DeclaredWorker, facts: Mapping[str, Any], of_roles: bool = True) -> tuple[Shortfall, ...]:
    """Return the shortfalls of a worker's GPUs: their number and, with a driver, its reports on each GPU.

    `of_roles`: also judge what roles set: the declared MIG instances, the version of an installed driver.
    """
    nvml = _driver_report(worker, facts)
    counted = rules.working(nvml) if nvml else None
    count = int(facts.get("gpus", {}).get(worker.gpu_kind, 0)) if counted is None else counted
    short = []
    if count < worker.gpus:
        lost = rules.missing(nvml) if nvml and counted is not None else ""
        short.append(
            Shortfall(
                worker.node,
                "GPUs",
                str(worker.gpus),
                f"{count} ({lost})" if lost else str(count),
                f"{worker.node}: {{gpus: {{model: {worker.gpu_model}, count: {count}}}, "
                f'reason: "has {count} of {worker.gpus} GPUs"}}',
                rules.MEND_LOST if lost else "",
            )
        )
    mig = worker.mig if of_roles or not worker.mig else None
    driver = worker.driver if of_roles or not worker.gets_driver else None
    reported = rules.faults(nvml, worker.gpu_known, driver, mig) if nvml else ()
    faults = [fault for fault in reported if fault.kind not in worker.accepts]
    accept = ", ".join(dict.fromkeys((*worker.accepts, *(fault.kind for fault in faults))))
    override = f'{worker.node}: {{accept: [{accept}], reason: "known, and left so"}}'
    short += [
        Shortfall(worker.node, fault.what, fault.declared, fault.observed, override, fault.todo) for fault in faults
    ]
    return tuple(short)


def drains(
    shortfalls: Iterable[Shortfall], slurm_nodes: Mapping[str, tuple[str, str]], keep: Container[str] = ()
) -> tuple[DrainOrder, ...]:
    """Return the orders to Slurm that drain exactly the nodes with a shortfall.

    `slurm_nodes`: state and reason by node, from `parse_slurm_nodes`, of the judged nodes. A node that another user
    drained for another reason stays drained; a node in `keep` is not resumed.
    """
    short: dict[str, list[Shortfall]] = {}
    for shortfall in shortfalls:
        short.setdefault(shortfall.node, []).append(shortfall)
    orders = []
    for node, (state, reason) in slurm_nodes.items():
        drained = nodes.drained(state)
        if node in short and not drained:
            text = ", ".join(
                f"{shortfall.what} {shortfall.observed}, declared {shortfall.declared}" for shortfall in short[node]
            )
            orders.append(DrainOrder(node, "drain", MARK + text))
        elif node not in short and node not in keep and drained and reason.startswith((MARK, *_SLURM_OWN_REASONS)):
            orders.append(DrainOrder(node, "resume", reason))
    return tuple(orders)


def unsettled(slurm_nodes: Mapping[str, tuple[str, str]]) -> bool:
    """Return True until a node's daemon has registered; a drained node does not count."""
    return any(nodes.registering(state) and not nodes.drained(state) for state, _ in slurm_nodes.values())


def judged(workers: Sequence[DeclaredWorker], slurm_nodes: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the Slurm states of just these workers."""
    return {worker.node: slurm_nodes[worker.node] for worker in workers if worker.node in slurm_nodes}
