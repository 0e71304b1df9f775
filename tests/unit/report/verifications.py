"""A verification with every kind of result, for tests of what is made of it."""

from __future__ import annotations

from dataclasses import replace

from hpcforge.cluster.model import Measure, SmokeTest, SmokeTestProgram, Threshold
from hpcforge.report.verification import NodeIdentity, NotTested, Report, ReportedVerdict, Source, reported_verdict
from hpcforge.verify.baselines import PastVerification
from hpcforge.verify.lines import DerivedValue, References, weighed
from hpcforge.verify.verdicts import Assertion, Isolation, MeasuredRound, NamedPart, Verdict

NODES = ("w1", "w2", "w3")
HOSTILE = "<script>alert(1)</script>\x1b[31m"


def reported(program: SmokeTestProgram, verdict: Verdict, references: References) -> ReportedVerdict:
    test = SmokeTest(verdict.test, verdict.nodes, 60, program)
    return reported_verdict(test, weighed(verdict, program, references))


def node_health() -> ReportedVerdict:
    """One node has less memory, another an older kernel."""
    kernel, checks = Measure("kernel", "1", shown="text"), Measure("checks", "1", shown="count")
    program = SmokeTestProgram(launcher="plain", measures=(checks, kernel), description="Nodes are as declared.")
    rows = tuple({"host": node, "checks": 9, "kernel": "6.1" if node != "w3" else "5.10"} for node in NODES)
    fault = "memory_mib: expected 1024, got 512"
    verdict = Verdict("node_health", "wrong", NODES, launcher="plain", node="w2", detail=fault, reasons={"w2": fault})
    return reported(program, replace(verdict, measurements=rows, jobs=("31",), began_s=1.7e9 + 5), References())


def pairs() -> ReportedVerdict:
    """The network of w2 is slow in all of its pairs; w1 met w2 first, and w3 later."""
    rate = Measure("rate", "GB/s", "higher")
    program = SmokeTestProgram(launcher="plain", measures=(rate,), description="Pairs.", isolates=True)
    met = (("w1", "w2", 1.0), ("w2", "w3", 1.1), ("w1", "w3", 9.0))
    rows = tuple(
        {"host": node, "of_node": node, "of_peer": peer, "of_rail": 0, "of_direction": way, "rate": value}
        for node, peer, value in met
        for way in ("out", "in")
    )
    why = "1 GB/s, must be at least 7.2 GB/s"
    named = NamedPart(
        "bad", "adapter", "w2, rack r1, U5", ("w2",), 1.0, "GB/s", 7.2, "median", why, "ssh w2 ip -statistics link"
    )
    of = Isolation((MeasuredRound(1, 2.0, ("w1 (first)",), ("w1-w2 (first)",), ("w1 and w2: out 1 GB/s",)),), (named,))
    verdict = Verdict("pairs", "missed", NODES, launcher="plain", node="w2", detail=why, measurements=rows)
    return reported(program, replace(verdict, isolation=of), References())


def low() -> ReportedVerdict:
    """A test that passed: w3 has a third of the others' number, and no line refuses it."""
    rate = Measure("gflop_per_s", "GFLOP/s", "higher")
    program = SmokeTestProgram(launcher="plain", measures=(rate,), description="Multiplies matrices.")
    rows = tuple({"host": node, "gflop_per_s": 30.0 if node != "w3" else 10.0} for node in NODES)
    headline = "10 GFLOP/s on the slowest"
    passed = Verdict("gemm", "passed", NODES, launcher="plain", headline=headline, measurements=rows, jobs=("32", "33"))
    return reported(program, passed, References())


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
            pairs(),
            node_health(),
            low(),
        ),
        {"w5": "unreachable: no route"},
        drained={"w1": "smoke test copy missed"},
        not_tested=(NotTested("hpl", "beyond the level smoke (level quick)"),),
        software={"kernel": "6.1", "driver": ""},
        identities=(NodeIdentity("w2", "dgx-h100", "SN-0002", "rack r1, U5", {"BIOS": "1.6", "GPU 0": "H100"}),),
        history=(PastVerification(1.69e9, "ada@desk", {"copy": "passed"}),),
    )
