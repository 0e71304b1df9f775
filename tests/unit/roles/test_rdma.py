"""What nodes on InfiniBand and RoCE fabrics get, and what the program that sets RoCE adapters does with them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired, DesiredRole

Compiled = Callable[[Cluster], Desired]
Run = Callable[..., tuple[int, list[str], str]]  # of the program's text and arguments
PROGRAM = "/usr/sbin/hpcforge-roce"


def site(name: str) -> Cluster:
    return load(bundled.root() / "blueprints" / f"{name}.yaml").cluster


@pytest.fixture(scope="module")
def dgx() -> Cluster:
    return site("dgx-h100-site")


@pytest.fixture(scope="module")
def pair() -> Cluster:
    return site("roce-pair-16")


def of(desired: Desired, node: str) -> dict[str, DesiredRole]:
    return {one.role: one for one in desired.nodes[node]}


def program(desired: Desired, node: str) -> str:
    (file,) = [one for one in of(desired, node)["roce_adapters"].of(File) if one.path == PROGRAM]
    return desired.texts[str(file.digest)]


def test_who_is_on_a_fabric_of_rdma_has_its_software(dgx: Cluster, pair: Cluster, compiled: Compiled) -> None:
    infiniband, ethernet = compiled(dgx), compiled(pair)
    assert {"infiniband-diags", "ibverbs-providers"} <= set(of(infiniband, "gpu001")["rdma"].packages)
    assert "rdma" not in of(infiniband, "head01") and "roce_adapters" not in of(infiniband, "gpu001")
    assert "infiniband-diags" not in of(ethernet, "g01")["rdma"].packages
    assert "roce_adapters" in of(ethernet, "g01")
    # The head is on the fabric, and asks nothing of RDMA.
    assert not {"rdma", "roce_adapters"} & of(ethernet, "head01").keys()


def test_a_node_that_the_blueprint_names_manages_the_subnet(dgx: Cluster, compiled: Compiled) -> None:
    compute = replace(dgx.fabrics[0], subnet_manager="gpu002")
    desired = compiled(replace(dgx, fabrics=(compute, *dgx.fabrics[1:])))
    assert [name for name in desired.nodes if "opensm" in of(desired, name)] == ["gpu002"]
    assert not any("opensm" in of(compiled(dgx), name) for name in dgx.by_name)  # on-switch


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the program with a machine made of folders; its exit status, what it asked of dcb, and what it said."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dcb").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    (tmp_path / "bin" / "modprobe").write_text("#!/bin/sh\nexit 1\n")  # built in
    for program in ("dcb", "modprobe"):
        (tmp_path / "bin" / program).chmod(0o755)

    def made(text: str, *arguments: str) -> tuple[int, list[str], str]:
        here = text.replace("/sys/class/", f"{tmp_path}/class/").replace("/sys/kernel/", f"{tmp_path}/kernel/")
        done = subprocess.run(
            ["sh", "-c", here, "hpcforge-roce", *arguments],
            env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        asked = tmp_path / "asked"
        return done.returncode, asked.read_text().splitlines() if asked.exists() else [], done.stdout + done.stderr

    return made


def adapter(folder: Path, name: str, layer: str, *interfaces: str, bond: str = "") -> None:
    port = folder / "class" / "infiniband" / name / "ports" / "1"
    port.mkdir(parents=True)
    (port / "link_layer").write_text(f"{layer}\n")
    (folder / "kernel" / "config" / "rdma_cm" / name / "ports" / "1").mkdir(parents=True)  # as the kernel makes it
    for interface in interfaces:
        net = folder / "class" / "infiniband" / name / "device" / "net" / interface
        net.mkdir(parents=True)
        if bond:
            (net / "master" / "bonding").mkdir(parents=True)
            (net / "master" / "bonding" / "slaves").write_text(f"{bond}\n")


def wanted(*interfaces: str, dscp: int = 26, priority: int = 3) -> list[str]:
    return [
        line
        for interface in interfaces
        for line in (
            f"app replace dev {interface} dscp-prio {dscp}:{priority}",
            f"pfc set dev {interface} prio-pfc all:off {priority}:on",
        )
    ]


def test_both_ports_of_a_bond_are_set_and_infiniband_is_not(
    pair: Cluster, compiled: Compiled, run: Run, tmp_path: Path
) -> None:
    adapter(tmp_path, "mlx5_bond_0", "Ethernet", "enp1s0f0np0", bond="enp1s0f0np0 enp1s0f1np1")
    adapter(tmp_path, "ibp24s0", "InfiniBand", "ibp24s0")
    assert run(program(compiled(pair), "g01")) == (0, wanted("enp1s0f0np0", "enp1s0f1np1"), "")


def test_interfaces_that_the_blueprint_names_are_set_with_its_marks(
    pair: Cluster, compiled: Compiled, run: Run
) -> None:
    ether = replace(pair.fabrics[0], interfaces=("eno1", "eno2"), dscp=46, priority=5)
    text = program(compiled(replace(pair, fabrics=(ether,))), "g01")
    assert run(text) == (0, wanted("eno1", "eno2", dscp=46, priority=5), "")


def test_a_node_without_roce_adapters_says_so(pair: Cluster, compiled: Compiled, run: Run) -> None:
    assert run(program(compiled(pair), "g01")) == (1, [], "no RoCE adapter for ether\n")


def test_what_dcb_refuses_is_not_passed_over(pair: Cluster, compiled: Compiled, run: Run, tmp_path: Path) -> None:
    adapter(tmp_path, "rocep1s0f0", "Ethernet", "enp1s0f0")
    (tmp_path / "bin" / "dcb").write_text("#!/bin/sh\nexit 1\n")
    assert run(program(compiled(pair), "g01"))[0] == 1


def told(folder: Path, name: str, *interfaces: str) -> dict[str, Path]:
    """What an adapter's driver and the kernel can be told, by name, as yet at what they come with."""
    tos = folder / "kernel" / "config" / "rdma_cm" / name / "ports" / "1" / "default_roce_tos"
    switches = {
        f"{interface} {side} {priority}": folder / "class" / "net" / interface / "ecn" / side / "enable" / str(priority)
        for interface in interfaces
        for side in ("roce_np", "roce_rp")
        for priority in (3, 4)
    }
    for path in switches.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    for path in (tos, *switches.values()):
        path.write_text("0\n")
    return {"tos": tos, **switches}


def test_congestion_is_answered_and_connections_have_the_mark(
    pair: Cluster, compiled: Compiled, run: Run, tmp_path: Path
) -> None:
    adapter(tmp_path, "mlx5_bond_0", "Ethernet", "enp1s0f0np0", bond="enp1s0f0np0 enp1s0f1np1")
    files = told(tmp_path, "mlx5_bond_0", "enp1s0f0np0", "enp1s0f1np1")
    assert run(program(compiled(pair), "g01"))[0] == 0
    found = {name: path.read_text().strip() for name, path in files.items()}
    assert found.pop("tos") == "106"  # DSCP 26, and ECN may mark it: as NCCL and UCX have it
    assert found == {name: "1" if name.endswith("3") else "0" for name in found}


def test_each_can_be_left_as_it_is(pair: Cluster, compiled: Compiled, run: Run, tmp_path: Path) -> None:
    adapter(tmp_path, "rocep1s0f0", "Ethernet", "enp1s0f0")
    files = told(tmp_path, "rocep1s0f0", "enp1s0f0")
    chosen = {**pair.variables, "roce_adapters": {"ecn": False, "rdma_cm": False}}
    status, asked, _ = run(program(compiled(replace(pair, variables=chosen)), "g01"))
    assert (status, asked) == (0, wanted("enp1s0f0"))
    assert {path.read_text() for path in files.values()} == {"0\n"}


def test_an_interface_of_a_smaller_mtu_is_named_and_nothing_set(
    pair: Cluster, compiled: Compiled, run: Run, tmp_path: Path
) -> None:
    adapter(tmp_path, "mlx5_bond_0", "Ethernet", "enp1s0f0np0", bond="enp1s0f0np0 enp1s0f1np1")
    for name, mtu in (("enp1s0f0np0", 9_000), ("enp1s0f1np1", 1_500)):
        (tmp_path / "class" / "net" / name).mkdir(parents=True)
        (tmp_path / "class" / "net" / name / "mtu").write_text(f"{mtu}\n")
    text = program(compiled(pair), "g01")
    assert run(text, "mtu") == (1, [], "enp1s0f1np1 has MTU 1500, and its network 9000\n")
    (tmp_path / "class" / "net" / "enp1s0f1np1" / "mtu").write_text("9216\n")  # more is no harm
    assert run(text, "mtu") == (0, [], "")
    unsaid = tuple(replace(network, mtu=None) for network in pair.networks)
    (tmp_path / "class" / "net" / "enp1s0f1np1" / "mtu").write_text("1500\n")
    assert run(program(compiled(replace(pair, networks=unsaid)), "g01"), "mtu") == (0, [], "")
