"""What numbers are compared with: the software of a baseline, and the design where GPUs are real."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.cluster.load import load
from hpcforge.cluster.model import Acceptance, Measure, SmokeTest, SmokeTestProgram
from hpcforge.run.expectations import Expectations
from hpcforge.verify.baselines import Baseline, Verifications
from hpcforge.verify.verdicts import Verdict
from tests.support.three_nodes import CLUSTER, FACTS, NVML
from tests.unit.cluster.test_collectives import SITE

PROGRAM = SmokeTestProgram(
    name="copy",
    text="print()",
    measures=(Measure("rate", "GB/s", "higher"),),
    derived=(("rate", "all-reduce"),),
    options=(("size", "4"),),
)
TEST = SmokeTest("copy", ("w1", "w2"), 60, PROGRAM)
VERDICT = Verdict("copy", "passed", ("w1", "w2"), ranks=2, backend="gloo", measurements=({"rate": 9.0},))
KNOWN = Expectations(CLUSTER, facts={"w1": {**FACTS, "nvml": NVML}, "w2": FACTS}, slurm="slurm-wlm 22.05.8")


def saved(expected: Expectations, verdict: Verdict) -> Baseline:
    found = Verifications().saved("quiet", 1.0, {"copy": expected.measured(TEST, verdict)}).baseline("quiet")
    assert found
    return found


def test_a_fingerprint_has_what_a_number_depends_on() -> None:
    assert KNOWN.fingerprint(TEST, VERDICT) == {
        "kernel": "6.1",
        "driver": "550.163.01",
        "firmware": "96.00",
        "torch": "",
        "transport": "",
        "slurm": "slurm-wlm 22.05.8",
        "hardware": "rehearsal-node",
        "options": "size=4",
        "program": "9fcda6fd33d7",
        "ranks": "2",
    } | {"program": KNOWN.fingerprint(TEST, VERDICT)["program"]}


def test_another_option_or_kernel_is_another_baseline() -> None:
    with_baseline = replace(KNOWN, baseline=saved(KNOWN, VERDICT))
    assert with_baseline.differs(TEST, VERDICT) == ""
    assert [line.source for line in with_baseline.weigh(TEST, VERDICT).lines] == ["baseline quiet"]
    assert "options size=8" in with_baseline.differs(TEST, replace(VERDICT, options={"size": "8"}))
    newer = replace(with_baseline, facts={"w1": {**FACTS, "kernel": "6.12"}, "w2": FACTS})
    assert newer.differs(TEST, VERDICT).startswith("kernel 6.1, 6.12, the baseline has 6.1")


def test_runs_on_all_nodes_of_the_same_software_count_for_the_usual_rate() -> None:
    """The blueprint's own `copy` is on both nodes: what ran on one of them is no usual rate, and has none."""
    known = replace(KNOWN, cluster=replace(CLUSTER, acceptance=Acceptance("ops", tests=(TEST,))))
    kept = Verifications()
    for rate in (9.0, 9.1, 9.2, 9.1, 9.0):
        rates = known.rates(TEST, replace(VERDICT, measurements=({"rate": rate},)))
        assert rates is not None
        kept = kept.with_usual({"copy": rates})
    expected = replace(known, usual=kept.usual)
    slow = replace(VERDICT, measurements=({"rate": 9.0 / 19},))
    assert expected.weigh(TEST, slow).status == "missed"
    assert known.weigh(TEST, slow).passed
    for other in (
        replace(slow, nodes=("w1",)),
        replace(slow, nodes=("w1",), left_out={"w2": "down"}),
        replace(slow, options={"size": "8"}),
    ):
        assert expected.weigh(TEST, other).passed
    assert known.rates(TEST, replace(VERDICT, nodes=("w1",))) is None
    assert known.rates(TEST, replace(VERDICT, status="missed")) is None


def test_nothing_is_derived_for_stand_ins() -> None:
    assert KNOWN.weigh(TEST, VERDICT).lines == ()


def test_what_is_derived_is_of_the_fabric_that_carries_it(tmp_path: Path) -> None:
    """All nodes have an Ethernet fabric, which is named first; NCCL uses that of RoCE where there is one."""
    (tmp_path / "mixed.yaml").write_text(SITE)
    loaded = load(tmp_path / "mixed.yaml")
    assert loaded.cluster.acceptance
    fast, files, plain, alone = loaded.cluster.acceptance.tests
    expected = Expectations(loaded.cluster, loaded.fabrics, loaded.catalog.gpus)
    text = {test.nodes: next(iter(expected.derived(test, test.nodes).values())) for test in (fast, files, plain, alone)}
    assert "a node's adapters: 2 x 200 Gb/s / 8" in text[fast.nodes].derivation
    assert text[fast.nodes].bound == text[alone.nodes].bound == pytest.approx(31.5, rel=1e-3)  # by PCIe
    assert "a node's adapters: 1 x 100 Gb/s / 8" in text[files.nodes].derivation
    assert text[plain.nodes].derivation == "not derived: no rank runs on a GPU"
