"""The bandwidth to expect of any set of nodes, from GPU, NVLink, adapters and fabric, with its derivation. Pure.

Bus bandwidth is (S/t) x f, S being the bytes of the whole message: all-reduce f = 2(n-1)/n; all-gather, reduce-scatter
and all-to-all (n-1)/n, n the GPUs (NVIDIA/nccl-tests, PERFORMANCE.md). Point to point: what one GPU sends to another.

Each bound is the capacity of a cut through hardware, in one direction. The expected bandwidth is the least product of
a bound and the part of it that was measured on hardware limited by it. Reduction in network switches is not assumed:
with it, an all-reduce may exceed the bound of the adapters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from hpcforge.blueprint.sections.hardware import Gpu
from hpcforge.blueprint.smoke_tests import Operation
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.switch_groups import among, levels

OPERATIONS: tuple[Operation, ...] = get_args(Operation)

# One lane in one direction after encoding, GB/s (PCI-SIG: 8, 16, 32 GT/s with 128b/130b; 64 GT/s in flits).
_PCIE_LANE = {3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}


@dataclass(frozen=True)
class MeasuredPart:
    """The reached part of a bound, and the source of the measurement."""

    of_bound: float
    source: str


_NVLINK = MeasuredPart(
    0.76, "A100: 228 of 300 GB/s, Azure/azurehpc-health-checks; H200 without NVLS: 367 of 450, ml-engineering"
)
_NVLS = MeasuredPart(0.61, "H100 and H200: 480 of 787 GB/s, stas00/ml-engineering")
# An H200 in a virtual machine reached 55.2 to it and 54.1 GB/s from it (2026-11-27): the part is that of a pass line.
PCIE = MeasuredPart(0.76, "host to GPU: 48 of 63 GB/s, Azure/azurehpc-health-checks; between GPUs not measured")
_ADAPTER = MeasuredPart(0.90, "A100 180 of 200, H200 360 of 400 Gb/s (H100: 380), Azure/azurehpc-health-checks")
_ACROSS = MeasuredPart(0.83, "all-reduce of 4 H100 nodes: 331 of 400 GB/s, stas00/ml-engineering")


@dataclass(frozen=True)
class NodeGpus:
    """The GPUs of one node and their links, GB/s of one GPU in one direction; None: not known, or absent."""

    count: int
    nvlink_gb_per_s: float | None = None
    nvlink_reduces: bool = False
    pcie_gb_per_s: float | None = None

    @classmethod
    def of(cls, gpu: Gpu, count: int) -> NodeGpus:
        """Return the GPUs of a model in the catalog."""
        lane = _PCIE_LANE.get(gpu.pcie_generation or 0)
        pcie = lane * gpu.pcie_lanes if lane and gpu.pcie_lanes else None
        return cls(count, gpu.nvlink_gb_per_s or None, bool(gpu.nvlink_reduces), pcie)


@dataclass(frozen=True)
class Bound:
    """The capacity of one cut, as bus bandwidth."""

    what: str
    gb_per_s: float
    arithmetic: str
    part: MeasuredPart

    @property
    def expected_gb_per_s(self) -> float:
        """The part of it that is reached."""
        return self.gb_per_s * self.part.of_bound


@dataclass(frozen=True)
class Expectation:
    """The expected bandwidth of an operation over some nodes. None if a fact is missing, which the text names.

    `peak_gb_per_s` is the least bound, `expected_gb_per_s` the least of the reached parts of the bounds.
    """

    operation: Operation
    nodes: int
    gpus: int
    peak_gb_per_s: float | None
    expected_gb_per_s: float | None
    limited_by: str | None
    derivation: str


def expect(
    operation: Operation, nodes: Sequence[str], gpus: Mapping[str, NodeGpus], fabric: Fabric | None
) -> Expectation:
    """Return the expected bandwidth over all GPUs of these nodes (point to point: between any two of them)."""
    count = sum(gpus[node].count for node in nodes)
    missing = _missing(nodes, gpus, fabric, count)
    if missing:
        return Expectation(operation, len(nodes), count, None, None, None, f"not known: {missing}")
    bounds = list(_bounds(operation, nodes, gpus, fabric, count))
    least = min(bounds, key=lambda bound: bound.expected_gb_per_s)
    lines = [
        f"{bound.what}: {bound.arithmetic} = {bound.gb_per_s:.4g} GB/s, "
        f"of which {bound.part.of_bound:.0%} is {bound.expected_gb_per_s:.4g} GB/s ({bound.part.source})"
        for bound in bounds
    ]
    text = [f"{operation} over {count} GPUs of {len(nodes)} node{'s' * (len(nodes) != 1)}", *lines]
    text.append(f"limited by {least.what}: {least.expected_gb_per_s:.4g} GB/s")
    peak = min(bound.gb_per_s for bound in bounds)
    return Expectation(operation, len(nodes), count, peak, least.expected_gb_per_s, least.what, "\n".join(text))


def _missing(nodes: Sequence[str], gpus: Mapping[str, NodeGpus], fabric: Fabric | None, count: int) -> str | None:
    if count < 2:
        return "it takes two GPUs"
    unlinked = [node for node in nodes if gpus[node].count > 1 and not _inside(gpus[node])]
    if unlinked:
        return f"the links between GPUs of {unlinked[0]}: the catalog has neither NVLink nor PCIe"
    if len(nodes) == 1:
        return None
    if fabric is None:
        return "the fabric between the nodes"
    off = [node for node in nodes if node not in fabric.index]
    return f"{off[0]} is not on {fabric.name}" if off else None


def _inside(gpus: NodeGpus) -> float | None:
    return gpus.nvlink_gb_per_s or gpus.pcie_gb_per_s


def _bounds(
    operation: Operation, nodes: Sequence[str], gpus: Mapping[str, NodeGpus], fabric: Fabric | None, count: int
) -> Iterator[Bound]:
    inside = [gpus[node] for node in nodes if gpus[node].count > 1]
    if inside and not (operation == "point-to-point" and len(nodes) > 1):
        slowest = min(inside, key=lambda node_gpus: _inside(node_gpus) or 0.0)
        yield _within(operation, slowest, count, alone=len(nodes) == 1)
    if fabric is None or len(nodes) == 1:
        return
    if operation == "point-to-point":
        yield _adapter(fabric, max(gpus[node].count for node in nodes))
        return
    total = fabric.rails * fabric.rate_gbps / 8
    links = f"{fabric.rails} x {fabric.rate_gbps:g} Gb/s / 8"
    most = max(gpus[node].count for node in nodes)
    yield _cut(operation, "a node's adapters", total, links, most, count)
    for level in levels(fabric)[:-1]:
        for group, share in among(level, nodes):
            behind = sum(gpus[node].count for node in share)
            if behind < count:
                name = fabric.devices[group.switches[0]].name
                label = f"the uplinks of {name}" + (" and its group" if len(group.switches) > 1 else "")
                yield _cut(operation, label, group.up_gbps / 8, f"{group.up_gbps:g} Gb/s / 8", behind, count)


def _within(operation: Operation, gpus: NodeGpus, count: int, *, alone: bool) -> Bound:
    """Return the bound of the links between the GPUs of one node. In rings each GPU passes on at its link's rate.

    In an all-to-all, (g - 1) of n parts stay in a node of g GPUs. Where NVSwitches reduce, each GPU sends its bytes
    once and gets the sum once: the bound of an all-reduce is the link times 2(n-1)/n.
    """
    link = _inside(gpus) or 0.0
    label, part = ("NVLink", _NVLINK) if gpus.nvlink_gb_per_s else ("PCIe", PCIE)
    if operation == "all-reduce" and gpus.nvlink_reduces and alone:
        return Bound("NVLink", link * 2 * (count - 1) / count, f"{link:g} x 2 x {count - 1}/{count}", _NVLS)
    if operation == "all-to-all" and not alone:
        own = gpus.count
        return Bound(label, link * (count - 1) / (own - 1), f"{link:g} x {count - 1}/{own - 1}", part)
    return Bound(label, link, f"{link:g} a GPU", part)


def _adapter(fabric: Fabric, gpus: int) -> Bound:
    """Return the bound of one GPU's own adapters; of one adapter if GPUs share it."""
    own = max(1, fabric.rails // max(1, gpus))
    return Bound("one GPU's adapters", own * fabric.rate_gbps / 8, f"{own} x {fabric.rate_gbps:g} Gb/s / 8", _ADAPTER)


def _cut(operation: Operation, label: str, gb_per_s: float, links: str, behind: int, count: int) -> Bound:
    """Return the bound of a cut with `behind` of `count` GPUs on its near side.

    Rings: the message passes each cut once, spread over all links: the outgoing links are the bound. All-to-all: each
    GPU behind the cut sends (n - g)/n of its bytes across, so busbw is at most out / g x (n - 1)/(n - g).
    """
    if operation != "all-to-all":
        return Bound(label, gb_per_s, links, _ACROSS)
    bound = gb_per_s / behind * (count - 1) / (count - behind)
    return Bound(label, bound, f"{links} / {behind} x {count - 1}/{count - behind}", _ACROSS)
