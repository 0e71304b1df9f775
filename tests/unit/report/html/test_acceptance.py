"""The page of the acceptance report: complete, and without anything that a node's text could run.

How it reads at 1280 and 390 pixels is measured in test_design_chromium.py.
"""

from __future__ import annotations

import re

import pytest

from hpcforge.report.acceptance import AcceptanceBasis, acceptance_report
from hpcforge.report.html.acceptance import acceptance_page
from hpcforge.report.text import moment
from tests.unit.report.acceptances import NOW_S, away, broken, large, whole


def page(basis: AcceptanceBasis) -> str:
    return acceptance_page(acceptance_report(basis), basis.cluster)


@pytest.mark.parametrize("basis", [whole(), broken()], ids=["whole", "broken"])
def test_the_page_needs_nothing_else_and_holds_no_markup_of_others(basis: AcceptanceBasis) -> None:
    text = page(basis)
    assert "default-src 'none'" in text
    assert not re.search(r"<(?:script|img|iframe)|\bon\w+=|(?:src|href)=\"(?!data:|#)", text)
    assert "\x1b" not in text
    for section in ("exceptions", "asked", "built", "tests", "drift", "versions", "runs"):
        assert f'id="{section}"' in text


def test_the_page_names_date_commit_tests_and_numbers() -> None:
    basis = whole()
    text = page(basis)
    assert f"{moment(NOW_S)} by ada@desk" in text
    assert "0123456789ab" in text
    assert "All tests passed, and every node is as the blueprint asks" in text
    assert basis.cluster.acceptance
    for test in basis.cluster.acceptance.tests:
        assert test.name in text
    assert "busbw 380 GB/s" in text


def test_the_page_says_what_stops_the_acceptance_and_why() -> None:
    text = page(broken())
    assert "Not accepted: test not passed (1), not compared (1), less than declared (1)" in text
    assert "one DIMM out until June" in text
    assert "with changes that are not committed" in text
    assert "&lt;script&gt;alert(1)" in text


def test_drift_is_not_known_of_nodes_that_were_not_compared() -> None:
    text = page(away())
    assert "drift <b>not known</b>" in text
    assert "</b> with drift" not in text
    assert "Not known: no node was compared." in text
    assert "every node" not in text
    assert text.count("its console may say why") == 1
    assert ">not known</td>" in text  # roles that differ
    some = page(broken())
    assert "<b>2</b> with drift, not known of 1</li>" in some
    assert "Roles that an apply would change now. Not known of g02." in some


def test_ten_thousand_nodes_are_folded_by_rack() -> None:
    """Each node's numbers are there; what is not folded is short."""
    text = page(large())
    assert text.count('<details class="rack long">') == 2 * 250 + 1  # built, one test; the head's rack
    assert "<details open" not in text
    opened = re.sub(r'<details class="(?:rack )?long">.*?</details>', "", text, flags=re.DOTALL)
    assert opened.count("<tr") < 100
    assert len(re.findall(r"<strong>w\d{5}</strong>", text)) == 10_000
    assert "Rack r001, 40 nodes; copy_gb_per_s (GB/s): 1,040 to 1,079</summary>" in text
    assert "Rack r001, 40 nodes; no answer: 13" in text
    assert max(map(len, re.findall(r"<td[^>]*>([^<]*)", opened))) <= 400  # longer hostlists are folded, too
    assert len(text) < 400 * 10_000
