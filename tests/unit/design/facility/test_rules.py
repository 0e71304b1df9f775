"""The table of rules of racks and power, as text."""

from __future__ import annotations

import pytest

from hpcforge.design.facility.design import Severity
from hpcforge.design.facility.rules import RULES, Breach, breach, explained, markdown, not_checked
from tests.unit.design.facility.designs import ROOT

DOCUMENT = ROOT / "docs" / "facility.md"


def test_the_document_lists_every_rule() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    start, end = "<!-- rules: from hpcforge/design/facility/rules.py -->\n", "<!-- end of rules -->"
    assert text[text.index(start) + len(start) : text.index(end)] == markdown()


def test_a_rule_is_explained_with_its_code_severity_and_way_out() -> None:
    rule = RULES["POWER-003"]
    text = explained(rule)
    assert text.startswith(f"POWER-003 ({rule.severity}): ")
    assert all(part in " ".join(text.split()) for part in (rule.title, rule.way_out))


@pytest.mark.parametrize(
    ("severity", "result"), [(None, RULES["NODE-001"].severity), ("warning", "warning"), ("not-checked", "not-checked")]
)
def test_a_breach_is_as_severe_as_its_rule_unless_another_severity_is_given(
    severity: Severity | None, result: str
) -> None:
    assert breach(RULES, "NODE-001", ("nodes",), "w1", severity=severity).judged == result
    assert Breach("NODE-001", ("nodes",), "w1", severity=severity).judged == result
    assert not_checked("NODE-001", ("nodes",), "memory").severity == "not-checked"
