"""What NCCL and UCX are told follows from the blueprint, and what it does not imply is left, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.blueprint.hostlist import expand
from hpcforge.cluster import load
from hpcforge.cluster.collectives import Collectives, collectives, rdma_fabric
from hpcforge.cluster.model import FabricOf, Network, Wheel
from tests.support.shipped import anywhere

INFINIBAND = FabricOf("compute", "infiniband", 400.0, 2, False, interfaces=("mlx5_0", "mlx5_3"))
ROCE = FabricOf("lossless", "roce", 200.0, 2, False, dscp=26, priority=3)
ETHERNET = FabricOf("inband", "ethernet", 25.0, 2, False, bond="802.3ad")
BMCS = FabricOf("oob", "ethernet", 1.0, 1, True)
MGMT = Network("mgmt", "10.0.0.0/24")
NCCL_227 = Wheel("nvidia_nccl_cu12-2.27.5-py3-none-manylinux2014_x86_64.whl", "0" * 64)


def told(*fabrics: FabricOf, network: Network = MGMT, wheels: tuple[Wheel, ...] = ()) -> Collectives:
    return collectives(fabrics, network, (), wheels)


def said(found: Collectives) -> dict[str, str]:
    return {setting.name: setting.value for setting in found.settings}


def why_left(found: Collectives, name: str) -> str:
    return next(one.why for one in found.left if one.name == name)


def test_adapters_are_named_exactly_and_in_the_order_of_links() -> None:
    assert said(told(INFINIBAND, ETHERNET, BMCS)) == {
        "NCCL_IB_HCA": "=mlx5_0,mlx5_3",
        "UCX_NET_DEVICES": "mlx5_0:1,mlx5_3:1",
    }


def test_adapters_that_nobody_names_are_left_with_what_to_say() -> None:
    found = told(replace(INFINIBAND, interfaces=()), ETHERNET)
    assert said(found) == {}
    assert why_left(found, "NCCL_IB_HCA").endswith("the adapters of compute from those of inband: set its `interfaces`")
    alone = told(replace(INFINIBAND, interfaces=()), BMCS)  # a BMC's link is no adapter of the node's
    assert "have no other fabric" in why_left(alone, "NCCL_IB_HCA")


def test_interfaces_of_roce_are_not_adapters() -> None:
    found = told(replace(ROCE, interfaces=("enp1s0f0", "enp1s0f1")), ETHERNET)
    assert found.adapters == () and "NCCL_IB_HCA" not in said(found)
    assert "only the machine can tell" in why_left(found, "NCCL_IB_HCA")


@pytest.mark.parametrize("dscp, both", [(26, False), (46, True), (0, True)])
def test_roce_is_marked_for_nccl_and_for_ucx_where_it_marks_otherwise(dscp: int, both: bool) -> None:
    found = said(told(replace(ROCE, dscp=dscp)))
    assert int(found["NCCL_IB_TC"]) >> 2 == dscp and int(found["NCCL_IB_TC"]) & 3 == 2
    assert found.get("UCX_IB_TRAFFIC_CLASS") == (found["NCCL_IB_TC"] if both else None)
    assert not {"NCCL_IB_TC", "NCCL_IB_GID_INDEX"} & {
        one.name for one in (*told(INFINIBAND).settings, *told(INFINIBAND).left)
    }


def test_which_nccl_finds_the_address_of_roce_itself() -> None:
    old = Wheel("nvidia_nccl_cu11-2.20.5-py3-none-any.whl", "0" * 64)
    assert why_left(told(ROCE, wheels=(NCCL_227,)), "NCCL_IB_GID_INDEX").startswith("NCCL 2.27 of PyTorch finds")
    assert "needs it, and only the machine has it" in why_left(told(ROCE, wheels=(old,)), "NCCL_IB_GID_INDEX")
    assert "the jobs' NCCL is not known" in why_left(told(ROCE), "NCCL_IB_GID_INDEX")


@pytest.mark.parametrize(
    "change, value", [({"rails": True}, "0"), ({}, None), ({"rails": True, "bond": "802.3ad"}, None)]
)
def test_rings_stay_on_their_rail_where_there_is_less_between_rails(
    change: dict[str, object], value: str | None
) -> None:
    assert said(told(replace(INFINIBAND, **change))).get("NCCL_CROSS_NIC") == value  # type: ignore[arg-type]
    assert "NCCL_CROSS_NIC" not in said(told(replace(INFINIBAND, rails=True, links=1)))


def test_ranks_meet_on_the_network_of_node_addresses() -> None:
    assert said(told(ETHERNET, network=replace(MGMT, interface="bond0"))) == {"NCCL_SOCKET_IFNAME": "=bond0"}
    assert "set `interface` of that network" in why_left(told(ETHERNET), "NCCL_SOCKET_IFNAME")


def test_the_fastest_fabric_carries_collectives() -> None:
    assert told(replace(ROCE, rate_gbps=100.0), INFINIBAND, ETHERNET).fabric == "compute"
    assert told(ETHERNET).fabric is None and told().fabric is None


def test_a_reason_is_one_line_that_is_no_setting() -> None:
    every = [INFINIBAND, replace(INFINIBAND, rails=True), replace(ROCE, dscp=8), ETHERNET]
    found = [setting for fabric in every for setting in told(fabric, network=replace(MGMT, interface="eno1")).settings]
    assert {one.name for one in found} == {
        "NCCL_IB_HCA", "UCX_NET_DEVICES", "NCCL_CROSS_NIC", "NCCL_SOCKET_IFNAME", "NCCL_IB_TC", "UCX_IB_TRAFFIC_CLASS",
    }  # fmt: skip
    for one in found:  # older NCCLs take whatever has a = for a setting, behind a # too
        assert "=" not in one.why and one.why.isprintable() and one.source


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., FabricOf]:
    """The compute fabric of dgx-h100-site.yaml, or the one of roce-pair-16.yaml, with a word changed."""

    def made(name: str, *changes: tuple[str, str]) -> FabricOf:
        text = anywhere(bundled.root() / "blueprints" / f"{name}.yaml")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "changed.yaml").write_text(text)
        return load(tmp_path / "changed.yaml").cluster.fabrics[0]

    return made


def test_rails_are_slow_between_each_other_where_leaves_or_peers_are(changed: Callable[..., FabricOf]) -> None:
    rails = "rails: 8, "
    assert not changed("dgx-h100-site").rails
    assert changed("dgx-h100-site", (rails, f"{rails}oversubscription: 2, ")).rails
    assert changed("dgx-h100-site", (rails, f"{rails}uplinks: 16, ")).rails
    assert not changed("dgx-h100-site", (rails, f"{rails}uplinks: 32, ")).rails
    assert changed("roce-pair-16").rails
    assert (changed("roce-pair-16").dscp, changed("roce-pair-16").priority) == (26, 3)
    marked = changed("roce-pair-16", ("    links: 2\n", "    links: 2\n    dscp: 0\n    priority: 5\n"))
    assert (marked.dscp, marked.priority) == (0, 5)


SITE = """\
schema: 1
name: mixed
domain: mixed.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: cpu, addresses: 10.1.0.1}
  c[01-02]: {functions: [worker], hardware: cpu, addresses: "10.1.0.[11-12]"}
  l[01-02]: {functions: [worker], hardware: cpu, gpus: {model: l40s, count: 4}, addresses: "10.1.0.[21-22]"}
  m[01-02]: {functions: [worker], hardware: dgx-a100, addresses: "10.1.0.[31-32]"}
hardware:
  cpu: {like: generic-2u, sockets: 2, cores_per_socket: 32, threads_per_core: 2, memory_gib: 256}
fabrics:
  lan: {kind: ethernet, rate_gbps: 25, topology: leaf-pair, switch: sn2410, links: 2, bond: 802.3ad, nodes: all}
  files: {kind: roce, rate_gbps: 100, topology: single-switch, switch: sn4600, nodes: "l[01-02],m[01-02]"}
  bmcs: {kind: ethernet, rate_gbps: 1, topology: fat-tree, switch: sn2201}
  fast: {kind: roce, rate_gbps: 200, topology: single-switch, switch: sn4600, links: 2, nodes: "l[01-02]"}
networks:
  mgmt: {fabric: lan, cidr: 10.1.0.0/24}
  bmc: {fabric: bmcs, cidr: 10.2.0.0/24}
services: {dns: {on: head}, time: {on: head}, depot: {on: head}}
software: {os: {name: debian, release: "12"}, frameworks: {pytorch: "2.10.0"}, preinstalled: {driver: "535.261.03"}}
slurm: {controller: head, partitions: {main: {nodes: all, default: true}}}
users: {tests: {uid: 2001}}
acceptance: {run_as: tests, tests: {allreduce: {nodes: ["l[01-02]", "m[01-02]", "c[01-02]", l01]}}}
"""


@pytest.mark.parametrize(
    ("nodes", "rdma", "fabric"),
    [
        ("l[01-02]", True, "fast"),  # not the first fabric that has them, which is `lan`
        ("m[01-02]", True, "files"),
        ("c[01-02]", True, "lan"),  # without RDMA: the fabric of the nodes' network
        ("l01,m01", True, None),  # bound to different fabrics
        ("c01,l01", True, None),
        ("l01,m01", False, "lan"),
    ],
)
def test_the_fabric_between_nodes_is_that_of_their_settings(
    tmp_path: Path, nodes: str, rdma: bool, fabric: str | None
) -> None:
    (tmp_path / "mixed.yaml").write_text(SITE)
    cluster = load(tmp_path / "mixed.yaml").cluster
    meant = [cluster.by_name[name] for name in expand(nodes)]
    carrier = cluster.fabric_between(meant, rdma=rdma)
    assert (carrier.name if carrier else None) == fabric
    if carrier and carrier.rdma:
        assert {cluster.collectives(node.fabrics).fabric for node in meant} == {fabric}
    without = cluster.fabric_between([cluster.by_name["c01"], cluster.by_name["c02"]])
    assert without and not without.rdma and rdma_fabric([without]) is None
