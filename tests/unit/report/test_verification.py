"""The report as data: its JSON has its own schema, and keeps the keys that readers know."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from pydantic import TypeAdapter

from hpcforge.cluster.model import Measure, SmokeTest, SmokeTestProgram
from hpcforge.report.verification import Report, document, reported_verdict, results_digest
from hpcforge.verify.verdicts import Verdict
from tests.unit.report.verifications import report


def test_the_json_is_what_its_schema_says() -> None:
    told = json.loads(json.dumps(document(report())))
    assert {"schema_version", "verdicts", "left_out", "fell_out"} <= {*told}
    assert TypeAdapter(Report).validate_python(told) == report()
    schema = TypeAdapter(Report).json_schema(mode="serialization")
    assert {*told} == {*schema["properties"]}


def test_parts_have_their_numbers_and_what_they_miss() -> None:
    copy = report().verdicts[0]
    assert [(part.part, part.value, part.missed) for part in copy.parts] == [
        ("w1", 5.0, True),
        ("w2", 10.0, False),
        ("w3", 10.0, False),
    ]
    assert not report().passed


def test_a_healthy_node_that_met_a_slow_one_has_the_best_of_its_pairs() -> None:
    pairs = next(verdict for verdict in report().verdicts if verdict.test == "pairs")
    assert {part.part: part.value for part in pairs.parts} == {"w1": 9.0, "w2": 1.1, "w3": 9.0}
    assert [part.part for part in pairs.low] == ["w2"]


def test_one_slow_direction_of_a_rail_is_not_hidden_by_the_others() -> None:
    rate = Measure("rate", "GB/s", "higher")
    test = SmokeTest("pairs", ("w1", "w2", "w3"), 60, SmokeTestProgram(measures=(rate,), isolates=True))
    rows = tuple(
        {
            "of_node": node, "of_peer": peer, "of_rail": rail, "of_direction": way,
            "rate": 1.0 if rail == 1 and (peer if way == "out" else node) == "w2" else 9.0,
        }
        for node, peer in (("w1", "w2"), ("w2", "w3"), ("w1", "w3")) for rail in (0, 1) for way in ("out", "in")
    )  # fmt: skip
    parts = reported_verdict(test, Verdict("pairs", "missed", test.nodes, measurements=rows)).parts
    assert {part.part: part.value for part in parts} == {"w1": 9.0, "w2": 1.0, "w3": 9.0}  # what w2 receives on rail 1


def test_under_half_of_the_last_run_is_low_and_half_is_not() -> None:
    test = SmokeTest("sum", ("w1",), 60, SmokeTestProgram(measures=(Measure("rate", "GB/s", "higher"),)))
    last, half, under = (
        Verdict("sum", "passed", ("w1",), measurements=({"rate": rate},)) for rate in (10.0, 5.0, 4.99)
    )
    assert reported_verdict(test, half, before=last).low == ()
    assert [part.low for part in reported_verdict(test, under, before=last).low] == ["under half of the last run's, 10"]
    others = replace(last, options={"size_mib": "1"}), replace(last, nodes=("w1", "w2"))
    assert not any(reported_verdict(test, under, before=other).low for other in others)


def test_the_digest_is_of_the_raw_results() -> None:
    verdict = Verdict("sum", "passed", ("w1",), measurements=({"b": 1.5, "a": 2},))
    raw = '[[{"a":2,"b":1.5}],[]]'
    assert results_digest(verdict) == hashlib.sha256(raw.encode()).hexdigest()
    assert results_digest(replace(verdict, measurements=({"b": 1.6, "a": 2},))) != results_digest(verdict)
