"""The acceptance report: what stops an acceptance, what is an exception, and what programs read."""

from __future__ import annotations

import json
from dataclasses import replace

from hpcforge.blueprint.hostlist import fold
from hpcforge.report.acceptance import acceptance_json, acceptance_report
from hpcforge.verify.verdict_records import KeptVerdicts, Recorded
from tests.unit.report.acceptances import NOW_S, away, broken, whole


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


def test_nodes_that_do_not_answer_are_one_exception_for_each_reason() -> None:
    report = acceptance_report(away())
    kinds = {found.kind: (fold(found.nodes), found.why.splitlines()[0]) for found in report.exceptions}
    assert kinds == {
        "host key not known": ("head01,login01,stor01", "the inventory has no host key: use --trust-new"),
        "not compared": ("g[01-16]", "the node does not answer"),
    }
    assert report.sentence == "Not accepted: host key not known (3), not compared (16)"
    assert not any(node.compared for node in report.nodes)


def test_without_a_verdict_nothing_is_accepted() -> None:
    report = acceptance_report(replace(whole(), recorded=Recorded()))
    assert report.judgement == "not accepted"
    assert {test.status for test in report.tests} == {"never run"}
    assert "test not passed" in report.sentence


def test_a_part_that_passed_does_not_hide_that_the_whole_failed() -> None:
    basis = whole()
    first, *rest = basis.recorded.kept
    failed = replace(first.verdict, status="failed", detail="rank 3: no answer")
    part = replace(first.verdict, nodes=first.verdict.nodes[:2])
    kept = KeptVerdicts(failed, NOW_S, part.nodes, part=part, part_s=NOW_S)
    report = acceptance_report(replace(basis, recorded=Recorded((kept, *rest))))
    assert (report.judgement, report.tests[0].status) == ("not accepted", "failed")


def test_a_pass_with_other_options_or_without_a_node_is_not_the_blueprint_s() -> None:
    basis = whole()
    first, *rest = basis.recorded.kept
    other = replace(first, verdict=replace(first.verdict, options={"sizes_kib": "4"}))
    report = acceptance_report(replace(basis, recorded=Recorded((other, *rest))))
    assert (report.judgement, report.tests[0].status) == ("not accepted", "passed with other options")
    new = first.verdict.nodes[0]
    before = replace(
        first, verdict=replace(first.verdict, nodes=first.verdict.nodes[1:]), stands_for=first.stands_for[1:]
    )
    report = acceptance_report(replace(basis, recorded=Recorded((before, *rest))))
    assert report.judgement == "not accepted"
    assert [(found.nodes, found.why) for found in report.exceptions if found.stops] == [((new,), "never tested")]
