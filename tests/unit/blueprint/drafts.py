"""Blueprints as drafts, for tests of one check each: what a check finds, by place and severity."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from hpcforge import bundled
from hpcforge.blueprint.reader import read_bytes
from hpcforge.blueprint.role_declarations import read_declared
from hpcforge.blueprint.schema import Blueprint, blueprint_model
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from hpcforge.blueprint.validate import Draft, Finding, validate

SMALL = (Path(__file__).parent / "cases" / "valid.yaml").read_text(encoding="utf-8")
ACCOUNTED = ("depot: {on: head}", "depot: {on: head}, accounting: {on: head}")


@cache
def model() -> type[Blueprint]:
    return blueprint_model(read_declared(bundled.roles()), load_smoke_tests(bundled.smoke_tests()))


def draft(*changes: tuple[str, str], text: str = SMALL) -> Draft:
    """The small blueprint with some texts replaced."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return validate(model(), read_bytes(text.encode(), "small.yaml"))[0]


def places(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Where findings are, and how severe."""
    return [(".".join(map(str, finding.loc)), finding.severity) for finding in findings]


def errors(*locations: str) -> list[tuple[str, str]]:
    return [(location, "error") for location in locations]
