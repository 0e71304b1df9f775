"""NCCL and UCX settings for a cluster's fabrics, each with its reason and source. Pure.

Said is what the blueprint implies and the library cannot find out by itself, or finds out wrongly. All else stays at
the library's default, and `Left` says why that is right, or what would have to be known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcforge.cluster.model.network import FabricOf, Network
    from hpcforge.cluster.model.software import Wheel

_NCCL = "docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html, {}"
_UCX = "github.com/openucx/ucx, {}"
_OPEN_MPI = "docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/ib-and-roce.html (UCX_NET_DEVICES)"
_UCX_DSCP = 26  # UCX's own mark for RoCE: traffic class 106
_ECN_CAPABLE = 2  # the two bits below the DSCP: congestion may be marked (RFC 3168, ECT(0))
_FINDS_GID = (2, 21)  # the first NCCL that selects the RoCE v2 address itself
_NCCL_WHEEL = re.compile(r"nvidia_nccl_cu[0-9]+-([0-9]+)\.([0-9]+)(?:\.[0-9]+)*-")


@dataclass(frozen=True)
class LibraryVariable:
    """A variable of NCCL's or UCX's, and why it has this value. The reason is one line, without `=`."""

    name: str
    value: str
    why: str
    source: str


@dataclass(frozen=True)
class DefaultVariable:
    """A variable that stays at the library's default: why that is right, or which value is missing."""

    name: str
    why: str
    source: str


@dataclass(frozen=True)
class Collectives:
    """Settings and unset variables for nodes on the same fabrics."""

    fabric: str | None  # the fabric that carries collectives by RDMA; None: IP carries them
    adapters: tuple[str, ...]  # adapters with a configured name, in the order of the fabric's links
    settings: tuple[LibraryVariable, ...]
    left: tuple[DefaultVariable, ...]

    @property
    def nccl(self) -> tuple[LibraryVariable, ...]:
        """The variables of NCCL's."""
        return tuple(setting for setting in self.settings if setting.name.startswith("NCCL_"))

    @property
    def ucx(self) -> tuple[LibraryVariable, ...]:
        """The variables of UCX's."""
        return tuple(setting for setting in self.settings if setting.name.startswith("UCX_"))


def rdma_fabric(fabrics: Iterable[FabricOf]) -> FabricOf | None:
    """Return the fabric that NCCL and UCX use on nodes with these fabrics, the fastest with RDMA; None: they use IP."""
    fast = (fabric for fabric in fabrics if fabric.rdma and not fabric.bmc)
    return max(fast, key=lambda fabric: fabric.rate_gbps * fabric.links, default=None)


def collectives(
    fabrics: Sequence[FabricOf], network: Network, others: Sequence[Network], wheels: Sequence[Wheel]
) -> Collectives:
    """Return the settings for nodes on these fabrics.

    `network` has the nodes' addresses, `others` are all other networks; `wheels` are PyTorch's, which bring NCCL.
    """
    plugged = [fabric for fabric in fabrics if not fabric.bmc]
    fabric = rdma_fabric(plugged)
    variables: list[LibraryVariable | DefaultVariable] = []
    if fabric is None:
        reason = "the nodes have no InfiniBand or RoCE fabric; NCCL still uses an RDMA adapter that is up"
        variables.append(DefaultVariable("NCCL_IB_HCA", reason, _NCCL.format("NCCL_IB_HCA")))
    else:
        variables += [*_adapters(fabric, plugged), *_crossing(fabric)]
    variables.append(_bootstrap(network, others))
    if fabric is not None and fabric.kind == "roce":
        variables += [*_address(wheels), *_marks(fabric)]
    reason = "NCCL reads the PCIe tree itself; only virtual machines that hide it need a file, from their provider"
    variables.append(DefaultVariable("NCCL_TOPO_FILE", reason, _NCCL.format("NCCL_TOPO_FILE")))
    return Collectives(
        fabric.name if fabric else None,
        _adapter_names(fabric) if fabric else (),
        tuple(setting for setting in variables if isinstance(setting, LibraryVariable)),
        tuple(setting for setting in variables if isinstance(setting, DefaultVariable)),
    )


def _adapter_names(fabric: FabricOf) -> tuple[str, ...]:
    """Return a node's adapters by name. For RoCE a blueprint names interfaces, as LLDP does, and not adapters."""
    return fabric.interfaces if fabric.kind == "infiniband" else ()


def _adapters(fabric: FabricOf, plugged: Sequence[FabricOf]) -> Iterator[LibraryVariable | DefaultVariable]:
    """Yield the adapters for collectives."""
    names = ("NCCL_IB_HCA", _NCCL.format("NCCL_IB_HCA")), ("UCX_NET_DEVICES", _OPEN_MPI)
    if adapters := _adapter_names(fabric):
        reason = f"only the {len(adapters)} adapters of {fabric.name}, in the order of its links"
        exact = "=" + ",".join(adapters)  # without `=`, mlx5_1 also matches mlx5_10
        ports = ",".join(f"{name}:1" for name in adapters)
        for (name, source), value in zip(names, (exact, ports), strict=True):
            yield LibraryVariable(name, value, reason, source)
        return
    reason = "the nodes have no other fabric; NCCL uses every adapter that is up"
    if len(plugged) > 1:
        others = ", ".join(plugged_fabric.name for plugged_fabric in plugged if plugged_fabric is not fabric)
        cure = "set its `interfaces`" if fabric.kind == "infiniband" else "only the machine can tell"
        reason = f"the blueprint does not separate the adapters of {fabric.name} from those of {others}: {cure}"
    for name, source in names:
        yield DefaultVariable(name, reason, source)


def _crossing(fabric: FabricOf) -> Iterator[LibraryVariable | DefaultVariable]:
    """Yield whether a ring may leave its rail."""
    source = _NCCL.format("NCCL_CROSS_NIC")
    if fabric.links == 1 or fabric.bond:
        reason = "bonded ports of a card are one adapter" if fabric.bond else "a node has one link"
        yield DefaultVariable("NCCL_CROSS_NIC", reason, source)
    elif fabric.rails:
        reason = f"{fabric.name} carries less between its rails than on them: a ring stays on its rail"
        yield LibraryVariable("NCCL_CROSS_NIC", "0", reason, source)
    else:
        reason = f"{fabric.name} carries the same between any two links: NCCL's default (2) costs nothing"
        yield DefaultVariable("NCCL_CROSS_NIC", reason, source)


def _bootstrap(network: Network, others: Sequence[Network]) -> LibraryVariable | DefaultVariable:
    """Return the interface where ranks find each other; without RDMA it carries all traffic."""
    source = _NCCL.format("NCCL_SOCKET_IFNAME")
    if network.interface:
        first = ", ".join(further.name for further in others if not further.bmc and not further.external)
        else_ = f", not one of {first}" if first else ""
        reason = f"the workers' interface on {network.name}, the network of all nodes{else_}"
        return LibraryVariable("NCCL_SOCKET_IFNAME", f"={network.interface}", reason, source)
    reason = f"the workers' interface on {network.name} is not known: set `interface` of that network"
    return DefaultVariable(
        "NCCL_SOCKET_IFNAME",
        f"{reason}. NCCL prefers interfaces named ib*, then uses any other interface that is up",
        source,
    )


def _address(wheels: Sequence[Wheel]) -> Iterator[DefaultVariable]:
    """Yield the index of an adapter's RoCE v2 address."""
    source = _NCCL.format("NCCL_IB_GID_INDEX")
    match = next(filter(None, (_NCCL_WHEEL.match(wheel.file) for wheel in wheels)), None)
    version = (int(match[1]), int(match[2])) if match else None
    if version is None:
        reason = "NCCL finds it from 2.21 on; the jobs' NCCL is not known. Older ones need the value from the machine"
    elif version >= _FINDS_GID:
        reason = f"NCCL {version[0]}.{version[1]} of PyTorch finds the address of RoCE v2 itself (from 2.21 on)"
    else:
        reason = f"NCCL {version[0]}.{version[1]} of PyTorch needs it, and only the machine has it (`show_gids`)"
    yield DefaultVariable("NCCL_IB_GID_INDEX", reason, source)
    yield DefaultVariable(
        "UCX_IB_GID_INDEX", "UCX finds the address of RoCE v2 itself", _UCX.format("src/uct/ib/base/ib_iface.c")
    )


def _marks(fabric: FabricOf) -> Iterator[LibraryVariable | DefaultVariable]:
    """Yield the mark that keeps packets from being dropped."""
    if fabric.dscp is None:
        return
    value = str(fabric.dscp << 2 | _ECN_CAPABLE)
    reason = f"DSCP {fabric.dscp} marks lossless traffic for the switches of {fabric.name}; ECN may mark it"
    yield LibraryVariable("NCCL_IB_TC", value, reason, _NCCL.format("NCCL_IB_TC"))
    source = _UCX.format("src/uct/ib/base/ib_iface.c (TRAFFIC_CLASS)")
    if fabric.dscp == _UCX_DSCP:
        yield DefaultVariable("UCX_IB_TRAFFIC_CLASS", f"UCX marks RoCE with {value} itself", source)
    else:
        yield LibraryVariable("UCX_IB_TRAFFIC_CLASS", value, reason, source)
