"""Racks, feeds and rows of a site against each other."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.sections.site import site_findings, unknown_racks
from tests.unit.blueprint.drafts import SMALL, draft, errors, places

FEEDS = "feeds: {A: {volts: 400, phases: 3, limit_w: 1000}, B: {volts: 400, phases: 3}}"


@pytest.mark.parametrize(
    ("site", "wrong"),
    [
        ('racks: {"r[1-2]": {model: x}}, row: [r2, r1]', []),
        ('racks: {"r[1-2]": {model: x}, r2: {model: x}}', ["site.racks.r2"]),
        ('racks: {r1: {model: x}}, row: [r1, "r[1-2]"]', ["site.row.1", "site.row.1"]),
        ("racks: {r1: {model: x}}, row: [r3]", ["site.row.0"]),
        (f"{FEEDS}, racks: {{r1: {{model: x, pdu: p, feeds: [A, B]}}}}", []),
        (f"{FEEDS}, racks: {{r1: {{model: x, pdu: p, feeds: [A, C]}}}}", ["site.racks.r1.feeds.1"]),
        (f"{FEEDS}, racks: {{r1: {{model: x, pdu: p}}}}", ["site.racks.r1"]),
        (f"{FEEDS}, racks: {{r1: {{model: x, feeds: [A]}}}}", ["site.racks.r1.feeds"]),
        ("feeds: {A: {volts: 400, phases: 3, limit_w: 1000, amps: 16}}", ["site.feeds.A.amps"]),
        ("feeds: {A: {volts: x, phases: 3}}, racks: {r1: {model: x, pdu: p, feeds: [B]}}", ["site.racks.r1.feeds.0"]),
    ],
)
def test_parts_of_a_site_fit_each_other(site: str, wrong: list[str]) -> None:
    assert places(site_findings(draft(text=f"{SMALL}site: {{{site}}}\n"))) == errors(*wrong)


@pytest.mark.parametrize(
    ("unknown", "racks", "hint"),
    [
        (["rack-b"], ["rack-a", "z1"], "did you mean `rack-a`?"),
        (["z5", "z6"], ["r1", "r2"], "its racks: r[1-2]"),
        (["r9"], [], "name racks under site.racks"),
    ],
)
def test_an_unknown_rack_is_answered_with_those_there_are(unknown: list[str], racks: list[str], hint: str) -> None:
    assert unknown_racks(("nodes",), unknown, racks).hint == hint
