"""Fabrics on a page: one script, which the policy names, and the content of each part."""

from __future__ import annotations

import base64
import hashlib

from hpcforge.report.html.design import design_page
from hpcforge.report.html.fabrics import fabrics_on_page, script
from tests.unit.report import designs


def test_the_policy_names_the_one_script() -> None:
    digest = hashlib.sha256(script().encode()).digest()
    text = design_page(*designs.with_hostile_fabric())
    assert f"script-src 'sha256-{base64.b64encode(digest).decode()}'\"" in text
    without = design_page(designs.unit())
    assert "script-src" not in without
    assert "<script" not in without


def test_a_fabric_has_a_row_for_each_switch_and_cable() -> None:
    design, cabled = designs.with_hostile_fabric()
    [shown] = fabrics_on_page(design.fabrics, cabled)
    assert len(shown.switches) == len(design.fabrics[0].placed)
    assert [cable.pull for cable in shown.cables] == [*range(1, len(cabled[0].order) + 1)]
    assert shown.drawing.startswith('<svg class="fabric"')
