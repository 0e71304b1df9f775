"""The report as data: its JSON has its own schema, and keeps the keys that readers know."""

from __future__ import annotations

import json

from pydantic import TypeAdapter

from hpcforge.report.verification import Report, document
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
