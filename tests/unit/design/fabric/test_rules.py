"""The table of rules of fabrics, as text."""

from __future__ import annotations

from pathlib import Path

from hpcforge.design.fabric.rules import RULES, breach, markdown

ROOT = Path(__file__).parents[4]


def test_the_document_lists_every_rule() -> None:
    text = (ROOT / "docs" / "fabric.md").read_text(encoding="utf-8")
    start, end = "<!-- rules: from hpcforge/design/fabric/rules.py -->\n", "<!-- end of rules -->"
    assert text[text.index(start) + len(start) : text.index(end)] == markdown()


def test_codes_are_in_order_and_of_two_kinds() -> None:
    codes = list(RULES)
    assert {code.partition("-")[0] for code in codes} == {"FABRIC", "CABLE"}
    assert codes == [rule.code for rule in RULES.values()]


def test_a_breach_has_the_severity_of_its_rule() -> None:
    assert breach("FABRIC-004", ("fabrics", "f"), "x").severity == "warning"
    assert breach("FABRIC-001", ("fabrics", "f"), "x").severity == "error"
