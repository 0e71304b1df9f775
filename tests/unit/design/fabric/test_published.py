"""Published reference designs, each from a blueprint that differs from the others in its number of nodes alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.design.fabric.graph import Fabric, oversubscription
from hpcforge.design.fabric.summary import metrics
from tests.unit.design.fabric.asks import blueprint, loaded, switches

# NVIDIA DGX SuperPOD reference architecture, DGX B200, larger component counts.
B200 = {
    64: ((16, 8, 0), (512, 512, 0)),
    128: ((32, 16, 0), (1_024, 1_024, 0)),
    256: ((64, 32, 0), (2_048, 2_048, 0)),
    512: ((128, 128, 64), (4_096, 4_096, 4_096)),
    1_024: ((256, 256, 128), (8_192, 8_192, 8_192)),
    2_048: ((512, 512, 256), (16_384, 16_384, 16_384)),
}
# The same of DGX H100, RA-11333: units of 32, less one node for the subnet managers; cables of nodes and managers.
H100 = {
    31: ((8, 4, 0), 252, 256),
    63: ((16, 8, 0), 508, 512),
    95: ((24, 16, 0), 764, 768),
    127: ((32, 16, 0), 1_020, 1_024),
}
# The same of DGX A100, RA-09950, of units of 20 and 40-port switches; its spines by number of units.
A100 = {
    20: (8, 4, 0),
    40: (16, 10, 0),
    60: (24, 20, 0),
    80: (32, 20, 0),
    100: (40, 20, 0),
    120: (48, 80, 24),
    140: (56, 80, 28),
}
# NVIDIA DGX SuperPOD reference architecture, DGX B300 with XDR InfiniBand: units of 72, 144-port switches. 288 nodes
# have 18 spines, not 16: 72 uplinks are no multiple of 16.
B300_XDR = {72: (8, 4, 576), 144: (16, 8, 1_152), 288: (32, 18, 2_304), 576: (64, 36, 4_608), 1_296: (144, 72, 10_368)}


def fabric(folder: Path, nodes: int, text: str, hardware: str = "dgx-h100") -> Fabric:
    result = loaded(blueprint(folder, text, nodes, hardware))
    assert [entry for entry in result.diagnostics if entry.severity == "error"] == []
    return result.fabrics[0]


def compute(switch: str, rate_gbps: int, more: str = "") -> str:
    return (
        f"  compute: {{kind: infiniband, rate_gbps: {rate_gbps}, topology: rail-optimised, rails: 8, nodes: worker, "
        f"switch: {switch}, subnet_manager: external{more}}}"
    )


@pytest.mark.parametrize("nodes", B200)
def test_dgx_b200(tmp_path: Path, nodes: int) -> None:
    one = fabric(tmp_path, nodes, compute("qm9700", 400), "dgx-b200")
    counts, cables = B200[nodes]
    assert switches(one) == counts
    assert tuple(one.cable_counts[kind] for kind in ("node_leaf", "leaf_spine", "spine_core")) == cables
    assert metrics(one).bisection_gbps == nodes * 8 * 400 / 2
    assert set(oversubscription(one).values()) == {1.0}


@pytest.mark.parametrize("nodes", H100)
def test_dgx_h100_with_its_subnet_managers(tmp_path: Path, nodes: int) -> None:
    one = fabric(tmp_path, nodes, compute("qm9700", 400, ", endpoints: {ufm: {count: 4}}"))
    counts, ends, up = H100[nodes]
    cables = one.cable_counts
    assert switches(one) == counts
    assert (cables["node_leaf"], cables["other_leaf"]) == (nodes * 8, 4)
    assert (cables["node_leaf"] + cables["other_leaf"], cables["leaf_spine"]) == (ends, up)
    managers = [cable.b for cable in one.cables if cable.kind == "other_leaf"]
    assert len(set(managers)) == 4, "managers are on leaves of their own"


@pytest.mark.parametrize("nodes", A100)
def test_dgx_a100(tmp_path: Path, nodes: int) -> None:
    one = fabric(tmp_path, nodes, compute("qm8790", 200), "dgx-a100")
    assert switches(one) == A100[nodes]
    assert one.cable_counts["leaf_spine"] == nodes * 8
    assert one.cable_counts["spine_core"] == (nodes * 8 if nodes > 100 else 0)


@pytest.mark.parametrize("nodes", B300_XDR)
def test_dgx_b300(tmp_path: Path, nodes: int) -> None:
    leaves, spines, cables = B300_XDR[nodes]
    one = fabric(tmp_path, nodes, compute("q3400", 800), "rehearsal-node")
    assert switches(one) == (leaves, spines, 0)
    assert one.cable_counts["node_leaf"] == one.cable_counts["leaf_spine"] == cables


def test_what_three_tiers_do_not_hold_is_an_error_with_the_bound(tmp_path: Path) -> None:
    result = loaded(blueprint(tmp_path, compute("qm9700", 400), 10_000))
    [error] = [entry for entry in result.diagnostics if entry.severity == "error"]
    assert result.fabrics == ()
    assert "10,000 nodes x 8 = 80,000 links > 65,536 = 64 groups x 32 leaves x 32 ends = 64^3 / 4" in error.message
    assert error.message.startswith("FABRIC-001: ")
    assert (error.line, error.hint) == (16, "switches with more ports, or a smaller fabric")
