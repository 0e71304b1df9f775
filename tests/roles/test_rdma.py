"""What nodes on InfiniBand and RoCE fabrics get, and what the program that sets RoCE adapters does with them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge import shipped
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired, Wanted

Compiled = Callable[[Cluster], Desired]
PROGRAM = "/usr/sbin/hpcforge-roce"


def site(name: str) -> Cluster:
    return load(shipped.root() / "blueprints" / f"{name}.yaml").cluster


@pytest.fixture(scope="module")
def dgx() -> Cluster:
    return site("dgx-h100-site")


@pytest.fixture(scope="module")
def pair() -> Cluster:
    return site("roce-pair-16")


def of(desired: Desired, node: str) -> dict[str, Wanted]:
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
def run(tmp_path: Path) -> Callable[[str], tuple[int, list[str], str]]:
    """Run the program with a machine made of folders; its exit status, what it asked of dcb, and what it said."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dcb").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    (tmp_path / "bin" / "dcb").chmod(0o755)

    def made(text: str) -> tuple[int, list[str], str]:
        done = subprocess.run(
            ["sh", "-c", text.replace("/sys/class/", f"{tmp_path}/class/")],
            env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        asked = tmp_path / "asked"
        return done.returncode, asked.read_text().splitlines() if asked.exists() else [], done.stderr

    return made


def adapter(folder: Path, name: str, layer: str, *interfaces: str, bond: str = "") -> None:
    port = folder / "class" / "infiniband" / name / "ports" / "1"
    port.mkdir(parents=True)
    (port / "link_layer").write_text(f"{layer}\n")
    for interface in interfaces:
        net = folder / "class" / "infiniband" / name / "device" / "net" / interface
        net.mkdir(parents=True)
        if bond:
            (net / "master" / "bonding").mkdir(parents=True)
            (net / "master" / "bonding" / "slaves").write_text(f"{bond}\n")


def wanted(*interfaces: str, dscp: int = 26, priority: int = 3) -> list[str]:
    return [
        line
        for one in interfaces
        for line in (
            f"app replace dev {one} dscp-prio {dscp}:{priority}",
            f"pfc set dev {one} prio-pfc all:off {priority}:on",
        )
    ]


def test_both_ports_of_a_bond_are_set_and_infiniband_is_not(
    pair: Cluster, compiled: Compiled, run: Callable[[str], tuple[int, list[str], str]], tmp_path: Path
) -> None:
    adapter(tmp_path, "mlx5_bond_0", "Ethernet", "enp1s0f0np0", bond="enp1s0f0np0 enp1s0f1np1")
    adapter(tmp_path, "ibp24s0", "InfiniBand", "ibp24s0")
    assert run(program(compiled(pair), "g01")) == (0, wanted("enp1s0f0np0", "enp1s0f1np1"), "")


def test_interfaces_that_the_blueprint_names_are_set_with_its_marks(
    pair: Cluster, compiled: Compiled, run: Callable[[str], tuple[int, list[str], str]]
) -> None:
    ether = replace(pair.fabrics[0], interfaces=("eno1", "eno2"), dscp=46, priority=5)
    text = program(compiled(replace(pair, fabrics=(ether,))), "g01")
    assert run(text) == (0, wanted("eno1", "eno2", dscp=46, priority=5), "")


def test_a_node_without_roce_adapters_says_so(
    pair: Cluster, compiled: Compiled, run: Callable[[str], tuple[int, list[str], str]]
) -> None:
    assert run(program(compiled(pair), "g01")) == (1, [], "no RoCE adapter for ether\n")


def test_what_dcb_refuses_is_not_passed_over(
    pair: Cluster, compiled: Compiled, run: Callable[[str], tuple[int, list[str], str]], tmp_path: Path
) -> None:
    adapter(tmp_path, "rocep1s0f0", "Ethernet", "enp1s0f0")
    (tmp_path / "bin" / "dcb").write_text("#!/bin/sh\nexit 1\n")
    assert run(program(compiled(pair), "g01"))[0] == 1
