"""What numbers are compared with: the software of a baseline, and the design where GPUs are real."""

from __future__ import annotations

from dataclasses import replace

from hpcforge.cluster.model import Measure, SmokeTest, SmokeTestProgram
from hpcforge.run.expectations import Expectations
from hpcforge.verify.baselines import Baseline, Verifications
from hpcforge.verify.verdicts import Verdict
from tests.support.three_nodes import CLUSTER, FACTS, NVML

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


def test_nothing_is_derived_for_stand_ins() -> None:
    assert KNOWN.weigh(TEST, VERDICT).lines == ()
