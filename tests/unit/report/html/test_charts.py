"""Charts: each is well-formed, bounded, and says in words what it shows."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hpcforge.report.html.charts import Bar, Series, bar_chart, face, line_chart, load_bar, matrix


def test_a_matrix_tells_what_was_not_measured() -> None:
    svg = ET.fromstring(matrix(["w1", "w2"], {("w1", "w2"): 10.0, ("w2", "w1"): 4.0}))
    kinds = [rect.get("class") for rect in svg.iter("rect")]
    assert kinds.count("cell none") == 2
    assert {"cell shade0", "cell shade3"} <= {*kinds}


def test_equal_points_do_not_divide_by_zero() -> None:
    assert ET.fromstring(line_chart([Series("x", "value", ((1.0, 2.0), (1.0, 2.0)))], log=True)) is not None


def test_a_bar_has_its_word_and_text_is_never_markup() -> None:
    text = bar_chart("rate by node", [Bar("<b>w1", 1.0, "missed"), Bar("w2", 2.0)], {1.5: True, 1.8: False})
    svg = ET.fromstring(text)
    assert [rect.get("class") for rect in svg.iter("rect")] == ["bar missed", "bar"]
    assert [line.get("class") for line in svg.iter("polyline")] == ["line", "line shown"]
    assert "<b>" not in text
    assert "1 missed" in [element.text for element in svg.iter("text")]


def test_a_load_above_its_limit_has_a_part_of_its_own() -> None:
    def kinds(*, judged: bool) -> list[str | None]:
        svg = ET.fromstring(load_bar(8.0, 12.0, 10.0, 20.0, judged=judged))
        return [rect.get("class") for rect in svg.iter("rect")]

    assert kinds(judged=False) == ["track", "load", "lost"]
    assert kinds(judged=True) == ["track", "load", "lost", "over-lost"]


def test_ports_are_drawn_in_two_rows() -> None:
    ports = [(rect.get("x"), rect.get("y")) for rect in ET.fromstring(face(["free", "node-leaf", "free"])).iter("rect")]
    assert ports == [("0", "0"), ("0", "8"), ("8", "0")]
