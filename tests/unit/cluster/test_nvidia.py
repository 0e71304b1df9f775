"""NVIDIA's software of a cluster: packages of a version, and nodes that get them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.blueprint.schema import Blueprint
from hpcforge.catalog import load_catalog
from hpcforge.cluster.model import Gpus
from hpcforge.cluster.nvidia import Nvidia, amd, nvidia
from tests.unit.blueprint.drafts import draft
from tests.unit.plan.conftest import node

CATALOG = load_catalog()
OS = 'os: {name: debian, release: "12"}'


def blueprint(software: str, release: str = "12") -> Blueprint:
    system = f'os: {{name: debian, release: "{release}"}}'
    model = draft((OS, f"{system}\n  {software}")).model
    assert isinstance(model, Blueprint)
    return model


def installed(software: str, release: str = "12") -> Nvidia:
    result = nvidia(blueprint(software, release), CATALOG, ("h100-sxm",), "KEY")
    assert result is not None
    return result


def test_of_the_distribution_packages_have_its_names() -> None:
    result = installed('nvidia: {driver: 535.261.03, modules: open, cuda: ["11.8"]}')
    assert result.repository is None
    assert (result.modules, result.models, result.dcgm) == ("open", ("h100-sxm",), None)
    assert (result.packages.dcgm, result.packages.fabric_manager) == ((), ())
    assert result.packages.driver == ("libcuda1", "libnvidia-ml1", "nvidia-smi")
    assert [toolkit.version for toolkit in result.toolkits] == ["11.8"]


@pytest.mark.parametrize(
    ("url", "address", "host"),
    [
        (
            "",
            "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/",
            "developer.download.nvidia.com",
        ),
        (", url: https://mirror.example.org/cuda", "https://mirror.example.org/cuda/", "mirror.example.org"),
        (", url: file:///srv/cuda/", "file:///srv/cuda/", ""),
    ],
)
def test_the_repository_is_nvidias_or_a_mirror(url: str, address: str, host: str) -> None:
    source = f"sources: {{nvidia: {{key: k.asc, licence_accepted: true{url}}}}}"
    result = installed(f"nvidia: {{driver: 580.82.07, modules: open, dcgm: 4.5.3}}\n  {source}")
    assert result.repository is not None
    assert (result.repository.url, result.repository.host, result.repository.key) == (address, host, "KEY")
    assert any("13" in name for name in result.packages.dcgm)  # by the CUDA that the driver brings


def test_nodes_get_it_by_their_gpus_and_fabric_manager_by_their_switches() -> None:
    software = installed("nvidia: {driver: 535.261.03, modules: open}")
    dgx = replace(node("w1", "worker", "10.0.0.2", Gpus("h100-sxm", 8)), hardware="dgx-h100")
    l40s = replace(dgx, gpus=Gpus("l40s", 8))
    assert [software.on(machine) for machine in (dgx, l40s, replace(dgx, gpus=None))] == [True, False, False]
    switched = replace(software, switched=("dgx-h100",), packages=replace(software.packages, fabric_manager=("fm",)))
    assert [each.fabric_on(dgx) for each in (switched, replace(switched, switched=()), software)] == [
        True,
        False,
        False,
    ]


def test_without_a_section_nothing_is_installed() -> None:
    plain = blueprint("preinstalled: {kernel: 6.1.0-40-amd64}")
    assert nvidia(plain, CATALOG, (), "") is None
    assert amd(plain.software, ()) is None
    rocm = amd(blueprint("amd: {rocm: 5.2.3}").software, ("mi210",))
    assert rocm is not None
    assert (rocm.rocm, rocm.models, rocm.kernel) == ("5.2.3", ("mi210",), None)
