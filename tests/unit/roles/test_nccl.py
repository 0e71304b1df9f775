"""What nodes of the shipped sites get of NCCL and UCX, read from their files, is what their fabrics imply."""

from __future__ import annotations

import re
from functools import cache

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster, FabricOf
from hpcforge.kinds.files import File
from hpcforge.plan.roles.role import load_roles
from tests.unit.roles.goldens import compiled


@cache
def files(site: str) -> dict[str, str]:
    """What the role nccl writes on each node, by path."""
    cluster = load(bundled.root() / "blueprints" / f"{site}.yaml").cluster
    desired = compiled(cluster, load_roles(bundled.roles()))
    found = {
        file.path: desired.texts[str(file.text)]
        for wanteds in desired.nodes.values()
        for wanted in wanteds
        if wanted.role == "nccl"
        for file in wanted.of(File)
    }
    assert found
    return found


def variables(site: str, file: str) -> dict[str, str]:
    """Read a file as NCCL reads it."""
    lines = [line for line in files(site)[file].splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def site(name: str) -> tuple[Cluster, FabricOf]:
    cluster = load(bundled.root() / "blueprints" / f"{name}.yaml").cluster
    return cluster, cluster.fabrics[0]


@pytest.fixture(scope="module")
def dgx() -> tuple[Cluster, FabricOf]:
    return site("dgx-h100-site")


@pytest.fixture(scope="module")
def pair() -> tuple[Cluster, FabricOf]:
    return site("roce-pair-16")


def test_a_dgx_has_an_adapter_for_each_rail_and_each_gpu(dgx: tuple[Cluster, FabricOf]) -> None:
    cluster, compute = dgx
    nccl, ucx = variables("dgx-h100-site", "/etc/nccl.conf"), variables("dgx-h100-site", "/etc/ucx/ucx.conf")
    adapters = nccl["NCCL_IB_HCA"].removeprefix("=").split(",")
    assert nccl["NCCL_IB_HCA"].startswith("=")
    assert len(set(adapters)) == len(adapters) == compute.links == 8
    assert all(node.gpus and node.gpus.count == len(adapters) for node in cluster.workers)
    assert ucx == {"UCX_NET_DEVICES": ",".join(f"{name}:1" for name in adapters)}
    assert not {"NCCL_IB_TC", "NCCL_IB_GID_INDEX"} & nccl.keys()  # it is InfiniBand


def test_a_dgx_meets_others_where_node_addresses_are(dgx: tuple[Cluster, FabricOf]) -> None:
    cluster, compute = dgx
    name = variables("dgx-h100-site", "/etc/nccl.conf")["NCCL_SOCKET_IFNAME"]
    assert name == f"={cluster.network.interface}" and cluster.network.fabric != compute.name
    assert name.endswith(f".{cluster.network.vlan}")


def test_adapters_of_a_dgx_are_those_of_the_published_pci_buses() -> None:
    """NVIDIA DGX BasePOD deployment guide, compute interfaces; names by rdma-core's NAME_FALLBACK, as Debian has it."""
    adapters = variables("dgx-h100-site", "/etc/nccl.conf")["NCCL_IB_HCA"].removeprefix("=").split(",")
    buses = {int(bus, 16) for bus in ["dc", "9a", "ce", "c0", "4f", "40", "5e", "18"]}
    assert {int(re.fullmatch("ibp([0-9]+)s0", name)[1]) for name in adapters} == buses  # type: ignore[index]


def test_roce_is_marked_as_its_switches_expect_it(pair: tuple[Cluster, FabricOf]) -> None:
    cluster, ether = pair
    nccl = variables("roce-pair-16", "/etc/nccl.conf")
    assert nccl == {"NCCL_SOCKET_IFNAME": f"={cluster.network.interface}", "NCCL_IB_TC": "106"}
    assert int(nccl["NCCL_IB_TC"]) >> 2 == ether.dscp
    assert ether.bond and "/etc/ucx/ucx.conf" not in files("roce-pair-16")


@pytest.mark.parametrize("name", ["dgx-h100-site", "roce-pair-16"])
def test_the_environment_module_says_what_the_files_say(name: str) -> None:
    """Its values stand in braces, within which Tcl changes nothing."""
    text = files(name)["/etc/environment-modules/modules/hpcforge/collectives"]
    assert text.startswith("#%Module\n")
    said = [line for line in text.splitlines() if not line.startswith(("#", "module-whatis {"))]
    module = dict(re.fullmatch(r"setenv ([A-Z_]+) \{([^{}\\]+)\}", line).groups() for line in said)  # type: ignore[union-attr]
    settings = [path for path in files(name) if path.endswith(".conf")]
    assert module == {key: value for path in settings for key, value in variables(name, path).items()}
