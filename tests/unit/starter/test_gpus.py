"""Names of GPUs in files of Slurm, job scripts and drivers become models of the catalog, or of the blueprint."""

from __future__ import annotations

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.starter.gpus import gpu_choices, own_models

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("l40s", ["l40s"]),
        ("nvidia_l40s", ["l40s"]),  # as AutoDetect=nvml names types: the driver's name with _ for blanks
        ("NVIDIA H100 80GB HBM3", ["h100-sxm"]),
        ("nvidia_h100_80gb_hbm3", ["h100-sxm"]),
        ("nvidia_h100_pcie", ["h100-pcie"]),
        ("h100pcie", ["h100-pcie"]),
        ("H100", ["h100-sxm", "h100-pcie"]),
        ("a100", ["a100-40", "a100-40-pcie", "a100-80", "a100-80-pcie"]),  # none that is cooled by liquid
        ("tesla_a100", ["a100-40", "a100-40-pcie", "a100-80", "a100-80-pcie"]),
        ("a100-sxm4-80gb", ["a100-80"]),
        ("nvidia_a100-sxm4-40gb", ["a100-40"]),
        ("a100_80gb", ["a100-80", "a100-80-pcie"]),
        ("v100", ["v100-sxm2", "v100-sxm3", "v100-pcie"]),
        ("nvidia_b200", ["b200-sxm"]),
        ("mi300x", ["mi300x"]),
        ("nvidia_a100-pcie-40gb", ["a100-40-pcie"]),
        ("nvidia_l4", ["l4"]),
        ("NVIDIA B300 SXM6 AC", ["b300-sxm"]),
        ("nvidia_rtx_pro_6000_blackwell_server_edition", ["rtxpro6000-server"]),
        ("gfx90a", ["mi210"]),
    ],
)
def test_a_name_is_a_model_of_the_catalog_or_several(name: str, models: list[str]) -> None:
    choices = gpu_choices(name, CATALOG)
    assert [choice.model for choice in choices] == models
    assert not any(choice.entry for choice in choices)
    assert all(choice.sure for choice in choices) == (len(models) == 1 and name != "gfx90a")  # which AMD has of several


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("nvidia_v100-pcie-16gb", "{vendor: nvidia, architecture: volta, memory_gb: 16, form_factor: pcie}"),
        ("tesla_v100-sxm2-16gb", "{vendor: nvidia, architecture: volta, memory_gb: 16, form_factor: sxm2}"),
        ("h100_nvl", "{vendor: nvidia, architecture: hopper}"),
        ("a100x", "{vendor: nvidia, architecture: ampere}"),
        ("H800", "{vendor: nvidia}"),
        ("rtx_6000", "{vendor: nvidia}"),
        ("tesla", "{vendor: nvidia}"),
        ("", "{vendor: nvidia}"),
        ("mi250x", "{vendor: amd}"),
        ("amd_instinct_mi250", "{vendor: amd}"),
    ],
)
def test_a_gpu_that_the_catalog_lacks_is_no_other_one(name: str, entry: str) -> None:
    [choice] = gpu_choices(name, CATALOG)
    assert (choice.entry, choice.sure) == (entry, False)
    assert choice.model not in CATALOG.gpus
    assert list(own_models([choice, choice])) == [(choice.model, entry)]
