"""The acceptance report: what stops an acceptance, what is an exception, and what programs read."""

from __future__ import annotations

import json
from dataclasses import replace

from hpcforge.blueprint.hostlist import fold
from hpcforge.report.acceptance import acceptance_json, acceptance_report
from hpcforge.verify.verdict_records import Recorded
from tests.unit.report.acceptances import broken, whole


def test_a_cluster_that_is_as_its_blueprint_asks_is_accepted() -> None:
    report = acceptance_report(whole())
    assert report.judgement == "accepted"
    assert report.exceptions == ()
    assert report.drift == {}
    assert {test.status for test in report.tests} == {"passed"}
    assert all(node.observed and not node.differs for node in report.nodes)
    worker = next(node for node in report.nodes if node.passed)
    assert worker.declared == worker.observed
    assert worker.slurm == "idle"
    every = fold([node.name for node in report.nodes])
    assert report.versions[-1] == ("hpcforge", "0.2.0", f"0.2.0 on {every}")


def test_every_exception_has_its_reason() -> None:
    basis = broken()
    w = [node.name for node in basis.cluster.workers]
    report = acceptance_report(basis)
    assert report.judgement == "not accepted"
    kinds = {found.kind: found for found in report.exceptions}
    assert [found.kind for found in report.exceptions if found.stops] == [
        "test not passed",
        "not compared",
        "less than declared",
    ]
    assert kinds["override"].why == "one DIMM out until June"
    assert kinds["override"].what == "memory_gib 512"
    left = [found for found in report.exceptions if found.kind == "left out of a test"]
    assert [(found.nodes, found.why) for found in left][1] == ((w[1],), "changed since it was tested")
    assert left[0].nodes == (w[0],)
    assert "sizes_kib 4" in kinds["options of a test"].what
    assert report.drift == {"time": {"drifted": (w[2], w[3])}}
    assert {"drift", "warning of a rule", "rehearsal"} <= kinds.keys()
    assert json.loads(json.dumps(acceptance_json(report)))["judgement"] == "not accepted"


def test_without_a_verdict_nothing_is_accepted() -> None:
    report = acceptance_report(replace(whole(), recorded=Recorded()))
    assert report.judgement == "not accepted"
    assert {test.status for test in report.tests} == {"never run"}
    assert "test not passed" in report.sentence
