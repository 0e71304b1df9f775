"""A verification with every kind of result, for tests of what is made of it."""

from __future__ import annotations

from hpcforge.cluster.model import Measure, SmokeTest, SmokeTestProgram, Threshold
from hpcforge.report.verification import NotTested, Report, ReportedVerdict, Source, reported_verdict
from hpcforge.verify.baselines import PastVerification
from hpcforge.verify.lines import DerivedValue, References, weighed
from hpcforge.verify.verdicts import Assertion, Verdict

NODES = ("w1", "w2", "w3")
HOSTILE = "<script>alert(1)</script>\x1b[31m"


def reported(program: SmokeTestProgram, verdict: Verdict, references: References) -> ReportedVerdict:
    test = SmokeTest(verdict.test, verdict.nodes, 60, program)
    return reported_verdict(test, weighed(verdict, program, references))


def report() -> Report:
    rate = Measure("rate", "GB/s", "higher")
    copy = SmokeTestProgram(
        launcher="plain", measures=(rate,), lines=(Threshold("rate", "at_least_of_median", 0.8),), description="Copies."
    )
    rows = tuple({"host": node, "task": task, "rate": 10.0 if task else 5.0} for task, node in enumerate(NODES))[::-1]
    detail = f"rate must be at least 8 GB/s: {HOSTILE}"
    missed = Verdict("copy", "missed", NODES, launcher="plain", node="w1", detail=detail, measurements=rows)
    sizes = SmokeTestProgram(
        measures=(Measure("size", "B", None, "size"), rate), derived=(("rate", "all-reduce"),), description="Sums."
    )
    swept = Verdict(
        "sum",
        "passed",
        NODES,
        ranks=3,
        headline="busbw 8 GB/s",
        transport="gloo on eth0",
        measurements=tuple({"size": 1024 * 4**power, "rate": 1.0 + power} for power in range(6)),
        assertions=tuple(Assertion(f"loss of step {step}", 3.0 - step, 3.0 - step, 0, 1e-5) for step in range(3)),
        left_out={"w4": "in use: job 20, ada's train"},
    )
    ways = tuple(
        {"of_node": node, "of_peer": peer, "of_rail": 0, "rate": 9.0}
        for node in NODES
        for peer in NODES
        if node != peer and "w3" not in (node, peer)
    )
    silent = Verdict("pairs", "unknown", NODES, launcher="plain", node="w3", detail="no rate", measurements=ways)
    pairs = SmokeTestProgram(launcher="plain", measures=(rate,), description="Pairs.")
    derived = References({"rate": DerivedValue(12.5, 10.4, "a node's adapters: 1 x 100 Gb/s / 8")})
    return Report(
        1,
        "small",
        Source("site.yaml", "ab" * 32, None, None, "0123", True),
        "0.2",
        "ada@desk",
        1.7e9,
        1.7e9 + 90,
        "smoke",
        (
            reported(copy, missed, References(baseline={"rate": {"w1": 9.0}}, baseline_name="quiet")),
            reported(sizes, swept, derived),
            reported(pairs, silent, References()),
        ),
        {"w5": "unreachable: no route"},
        drained={"w1": "smoke test copy missed"},
        not_tested=(NotTested("hpl", "beyond the level smoke (level quick)"),),
        software={"kernel": "6.1", "driver": ""},
        history=(PastVerification(1.69e9, "ada@desk", {"copy": "passed"}),),
    )
