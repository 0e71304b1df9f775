"""Expected bandwidth against what was published."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.expected_bandwidth import OPERATIONS, Expectation, NodeGpus, Operation, expect
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.spec import Ask, Model
from tests.support.as_plugged import names

QM9700 = Model("qm9700", 64, 64, per_cage=2)
GPUS = load_catalog().gpus


def pod(nodes: int, over: float = 1.0, rate: float = 400.0, rails: int = 8) -> Fabric:
    ask = Ask("compute", "infiniband", "rail-optimised", rate, rate, names("gpu", nodes), QM9700, QM9700, rails=rails)
    return build(replace(ask, leaf_oversubscription=over))


def expected(operation: Operation, model: str, nodes: int, fabric: Fabric | None = None, each: int = 8) -> Expectation:
    gpus = names("gpu", nodes)
    return expect(operation, gpus, dict.fromkeys(gpus, NodeGpus.of(GPUS[model], each)), fabric)


def test_operations_are_all_there() -> None:
    assert get_args(Operation) == OPERATIONS


@pytest.mark.parametrize(
    ("model", "nodes", "rate", "operation", "published"),
    [
        ("h100-sxm", 1, 0, "all-reduce", 480),  # ml-engineering, measured
        ("h200-sxm", 1, 0, "all-reduce", 480),
        ("a100-80", 1, 0, "all-reduce", 228),  # Azure, pass line
        ("h100-sxm", 4, 400, "all-reduce", 331),  # ml-engineering, over 3.2 Tb/s
        ("a100-80", 2, 200, "point-to-point", 180 / 8),  # Azure, pass lines
        ("h200-sxm", 2, 400, "point-to-point", 360 / 8),
    ],
)
def test_published(model: str, nodes: int, rate: float, operation: Operation, published: float) -> None:
    found = expected(operation, model, nodes, pod(32, rate=rate) if rate else None)
    assert found.expected_gb_per_s == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("model", ["a100-80", "h100-sxm", "h200-sxm", "b200-sxm"])
@pytest.mark.parametrize("nodes", [1, 2, 4, 40])
def test_a_line_lies_between_half_and_all_of_the_bound(operation: Operation, model: str, nodes: int) -> None:
    found = expected(operation, model, nodes, pod(64))
    assert found.peak_gb_per_s and found.expected_gb_per_s
    assert 0.45 <= found.expected_gb_per_s / found.peak_gb_per_s <= 1.1
    assert found.derivation.splitlines()[-1] == f"limited by {found.limited_by}: {found.expected_gb_per_s:.4g} GB/s"


def test_the_derivation_is_text() -> None:
    assert expected("all-reduce", "h100-sxm", 4, pod(64)).derivation == (
        "all-reduce over 32 GPUs of 4 nodes\n"
        "NVLink: 450 a GPU = 450 GB/s, of which 76% is 342 GB/s (A100: 228 of 300 GB/s, Azure/azurehpc-health-checks; "
        "H200 without NVLS: 367 of 450, ml-engineering)\n"
        "a node's adapters: 8 x 400 Gb/s / 8 = 400 GB/s, of which 83% is 332 GB/s (all-reduce of 4 H100 nodes: "
        "331 of 400 GB/s, stas00/ml-engineering)\n"
        "limited by a node's adapters: 332 GB/s"
    )


def test_oversubscription_counts_for_those_that_cross_it() -> None:
    """At 4 to 1 a leaf has 51 nodes and 13 uplinks. One unit does not feel it; two do, in an all-to-all."""
    thin = pod(102, over=4.0)
    across = names("gpu", 102)
    gpus = dict.fromkeys(across, NodeGpus.of(GPUS["h100-sxm"], 8))
    one = expect("all-to-all", across[:51], gpus, thin)
    two = expect("all-to-all", across, gpus, thin)
    assert one.limited_by == "a node's adapters"
    assert two.limited_by == "the uplinks of compute-leaf-001 and its group"
    # the 408 GPUs of a unit send half of their bytes up 8 leaves x 13 links of 50 GB/s
    assert two.peak_gb_per_s == pytest.approx(8 * 13 * 50 / 408 * 815 / 408)
    assert expect("all-reduce", across, gpus, thin).limited_by == "a node's adapters"


def test_an_all_to_all_of_two_nodes_by_hand() -> None:
    """Of 16 parts each GPU sends 8 to the other node, at 50 GB/s: t = 8/16 S / 50, and busbw = S/t x 15/16."""
    found = expected("all-to-all", "h100-sxm", 2, pod(32))
    assert found.peak_gb_per_s == pytest.approx(50 * 16 / 8 * 15 / 16)


def test_gpus_that_share_adapters() -> None:
    shared = expected("point-to-point", "a100-80", 2, pod(32, rate=200, rails=4))
    assert shared.peak_gb_per_s == pytest.approx(25)
    wide = expected("point-to-point", "h100-sxm", 2, pod(32), each=4)
    assert wide.peak_gb_per_s == pytest.approx(100)


def test_pcie_where_there_is_no_nvlink() -> None:
    found = expected("all-reduce", "l40s", 1, each=4)
    assert found.limited_by == "PCIe"
    assert found.peak_gb_per_s == pytest.approx(31.5, rel=0.01)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (expected("all-reduce", "h100-sxm", 1, each=1), "it takes two GPUs"),
        (expected("all-reduce", "h100-sxm", 2), "the fabric between the nodes"),
        (expected("all-reduce", "h100-sxm", 40, pod(32)), "gpu033 is not on compute"),
        (expected("all-reduce", "fake", 1, each=2), "the links between GPUs of gpu001"),
    ],
)
def test_what_is_not_known(found: Expectation, text: str) -> None:
    assert (found.peak_gb_per_s, found.expected_gb_per_s) == (None, None)
    assert found.derivation.startswith(f"not known: {text}")
