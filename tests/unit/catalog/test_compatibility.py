"""The table of what goes with what: forms of its ranges and rules."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from hpcforge.catalog.compatibility import CompatibilityRule, Range, load_compatibility

TABLE = load_compatibility()


@pytest.mark.parametrize(
    "text",
    ["any", "same as driver", ">=535", "<13", ">=11, <12", "6.1.0-40-amd64", "open", "open | closed", "ubuntu-24.04"],
)
def test_a_range_is_a_version_bounds_or_words(text: str) -> None:
    assert TypeAdapter(Range).validate_python(text) == text


@pytest.mark.parametrize("text", ["", "> 5", ">=11 <12", "open|closed", "Open", "=5", ">=, <5", "same as"])
def test_other_texts_are_no_range(text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Range).validate_python(text)


RULE = {
    "code": "SOFTWARE-001", "title": "x", "reason": "x", "source": "x",
    "when": {"cuda": "any"}, "needs": {"driver": "any"},
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"code": "SOFTWARE-1"},
        {"when": {}},
        {"needs": {}},
        {"needs": {"driver": "any", "cuda": "any"}},
        {"when": {"nosuch": "any"}},
        {"severity": "note"},
        {"more": 1},
    ],
)
def test_a_rule_compares_known_components_with_one(change: dict[str, object]) -> None:
    CompatibilityRule.model_validate(RULE)
    with pytest.raises(ValidationError):
        CompatibilityRule.model_validate({**RULE, **change})


def test_codes_of_the_table_rise_and_each_rule_has_a_source() -> None:
    codes = [rule.code for rule in TABLE.rules]
    assert codes == sorted(set(codes))
    assert all(rule.source and rule.reason for rule in TABLE.rules)
    assert load_compatibility() is TABLE
