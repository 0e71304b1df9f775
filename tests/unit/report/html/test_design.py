import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from hpcforge.design.facility.design import Position, Remark
from hpcforge.report.design import fabric_svg
from hpcforge.report.design import rack_svg as design_svg
from hpcforge.report.html.design import design_page, feed_rows
from hpcforge.report.html.fabrics import script
from tests.unit.report import designs

SVG = "{http://www.w3.org/2000/svg}"


class Outline(HTMLParser):
    """Elements of a page, the levels of its headings, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


PAGES = {make.__name__: make for make in (designs.unit, designs.hostile, designs.large, designs.without_site)}


@pytest.mark.parametrize("name", [*PAGES, "with_hostile_fabric"])
def test_page_is_accessible(name: str) -> None:
    made = designs.with_hostile_fabric() if name == "with_hostile_fabric" else (PAGES[name](),)
    page = Outline(design_page(*made))
    assert page.all("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(header.get("scope") for header in page.all("th"))
    assert all("aria-label" in svg or svg.get("aria-hidden") == "true" for svg in page.all("svg"))
    links = {link["href"] for link in page.all("a")}
    assert links <= {f"#{attributes['id']}" for _, attributes in page.elements if "id" in attributes}


@pytest.mark.parametrize("name", PAGES)
def test_page_refers_to_nothing_outside(name: str) -> None:
    page = Outline(design_page(PAGES[name]()))
    assert not page.all("script")
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert not [value for _, attributes in page.elements for key in ("src", "srcset") if (value := attributes.get(key))]


def test_page_is_the_same_every_time() -> None:
    assert design_page(designs.hostile()) == design_page(designs.hostile())


def test_every_text_of_the_blueprint_is_escaped() -> None:
    text = design_page(designs.hostile())
    assert "<script" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert Outline(text).text.count(designs.SCRIPT) >= 8


def test_every_text_of_a_fabric_is_escaped() -> None:
    text = design_page(*designs.with_hostile_fabric())
    assert text.count("<script") == 1
    assert script() in text
    assert "<img" not in text
    assert "\u202e" not in text
    page = Outline(text)
    assert page.text.count(designs.SCRIPT) >= 14
    assert [len(page.all(tag)) for tag in ("details", "input")] == [3, 1]
    svg = ET.fromstring(fabric_svg.drawing(designs.hostile_fabric().fabric))
    assert {one.tag.removeprefix(SVG) for one in svg.iter()} <= {"svg", "title", "style", "text", "rect", "path", "g"}


def test_figures_are_on_the_page() -> None:
    page = Outline(design_page(designs.unit()))
    for figure in (
        "331.4 kW",
        "402.7 kW",
        "298.3 kW",
        "84.8 tons of cooling",
        "3 of 3",
        "41.0 kW of 44.0 kW",
        "93 % of limit",
    ):
        assert figure in page.text, figure
    assert len([svg for svg in page.all("svg") if svg["class"] == "rack"]) == 10
    assert "gpu032" in page.text


def test_what_is_over_its_limit_has_the_word() -> None:
    """Feeds first: load against limit, and with one feed lost, where that is asked."""
    unit = designs.unit()
    feed, second, third = unit.feeds
    feeds = (replace(feed, limit_w=feed.load_w - 1), replace(second, limit_w=second.load_w + 1), third)
    over, lost = "over its limit", "over its limit with one feed lost"
    assert [rows.over for rows in feed_rows(replace(unit, feeds=feeds))] == [over, lost, ""]
    not_asked = replace(unit, feeds=feeds, power=replace(unit.power, survive="none"))
    assert [rows.over for rows in feed_rows(not_asked)] == [over, "", ""]
    hot = replace(feed, phases=(replace(feed.phases[0], limit_a=1.0), *feed.phases[1:]))
    assert feed_rows(replace(unit, feeds=(hot,)))[0].over == over
    text = design_page(replace(unit, feeds=feeds))
    assert f'<span class="tag error">{over}</span>' in text
    assert f'<span class="tag error">{lost}</span>' in text
    assert "2 feeds over the limit" in text
    assert "over the limit</strong>" not in design_page(unit)
    small = replace(unit, power=replace(unit.power, limit_w=1.0))
    assert '<strong class="over">over the site limit 1 W</strong>' in design_page(small)
    first, *others = unit.racks
    heavy = replace(first, limit_w=1.0, limit_kg=1.0, cooling_limit_w=1.0)
    assert design_page(replace(unit, racks=(heavy, *others))).count("(over)") == 5  # of them two on the drawing


def test_racks_that_differ_in_phases_only_are_one_row_and_several_pdus() -> None:
    unit = designs.unit()
    first, *others = unit.racks
    turned = tuple(replace(pdu, phases=(replace(pdu.phases[0], load_a=1.25), *pdu.phases[1:])) for pdu in first.pdus)
    page = Outline(design_page(replace(unit, racks=(replace(first, pdus=turned), *others))))
    assert page.text.count("g[01-08] each") == 1
    assert page.text.count("g[02-08] each") == 1


def test_backticks_are_code_and_nothing_else() -> None:
    remark = Remark("X-001", "error", "give `<b>u</b>` & more", None, "a lone ` stays <i>", "b.yaml", 1, 1)
    text = design_page(replace(designs.unit(), diagnostics=(remark,)))
    assert "give <code>&lt;b&gt;u&lt;/b&gt;</code> &amp; more" in text
    assert "a lone ` stays &lt;i&gt;" in text


def test_verdict_counts_errors_warnings_and_what_was_not_checked() -> None:
    unit = designs.unit()
    assert "This design passes every check" in Outline(design_page(unit)).text
    assert "This design does not hold" in design_page(designs.hostile())
    assert "No site is described" in design_page(designs.without_site())
    assert ">This design holds<" in design_page(replace(unit, diagnostics=()))


def test_many_remarks_are_cut_and_counted() -> None:
    remark = Remark("RACK-001", "error", "overlap", None, None, "b.yaml", 1, 1)
    page = Outline(design_page(replace(designs.unit(), diagnostics=(remark,) * 1_234)))
    assert "and 1,034 more" in page.text
    assert page.text.count("RACK-001") == 200


def test_large_site_is_folded() -> None:
    page = Outline(design_page(designs.large()))
    assert len([svg for svg in page.all("svg") if svg["class"] == "rack"]) == 2
    assert "g[0001-2499] \N{MULTIPLICATION SIGN} 2499" in page.text
    assert "g[0001-0020]" in page.text
    assert "gpu001" not in page.text
    assert page.all("details") == []


def test_ten_thousand_nodes_in_racks_that_are_not_alike_are_folded() -> None:
    text = design_page(designs.unlike())
    assert text.count('<details class="long">') == 2
    assert text.count("<summary>2,500 kinds of racks</summary>") == 2
    opened = re.sub(r'<details class="long">.*?</details>', "", text, flags=re.DOTALL)
    assert opened.count("<tr") < 100
    assert "g2499" in text
    assert len(text) < 500 * 10_000


def test_switches_of_racks_that_are_alike_are_drawn_without_their_names() -> None:
    racks = tuple(
        designs.rack(f"r{n:03}", (Position(f"compute-leaf-{n:03}", "switch", "qm9700", 48, 1, 1.0, 1.0, "proposed"),))
        for n in range(70)
    )
    text = design_page(replace(designs.unit(), racks=racks, row=()))
    assert len([svg for svg in Outline(text).all("svg") if svg["class"] == "rack"]) == 1
    assert "compute-leaf" not in text
    assert "qm9700" in text


def test_kinds_of_racks_that_are_not_drawn_are_named() -> None:
    racks = tuple(designs.rack(f"r{n:03}", (designs.node("n", 1, 1, "m", float(n), 1.0),)) for n in range(70))
    page = Outline(design_page(replace(designs.unit(), racks=racks, row=())))
    assert len([svg for svg in page.all("svg") if svg["class"] == "rack"]) == 64
    assert "r[064-069]" in page.text


def test_rack_as_a_file_is_well_formed_svg() -> None:
    svg = ET.fromstring(design_svg.rack(designs.unit(), "g01"))
    labels = [text.text for text in svg.iter(f"{SVG}text")]
    assert svg.tag == f"{SVG}svg"
    assert [label for label in labels if label and label.startswith("gpu")] == ["gpu004", "gpu003", "gpu002", "gpu001"]
    assert {str(unit) for unit in range(1, 49)} <= set(labels)
    assert {"13 U free", "2 U free", "41.0 kW of 44.0 kW"} <= set(labels)
    assert svg.find(f"{SVG}style") is not None


def test_hostile_rack_is_well_formed_svg() -> None:
    svg = ET.fromstring(design_svg.rack(designs.hostile(), "g01"))
    assert {one.tag.removeprefix(SVG) for one in svg.iter()} <= {"svg", "title", "style", "text", "rect", "line", "g"}
    assert any((text.text or "").startswith("<script>") for text in svg.iter(f"{SVG}text"))


def test_a_rack_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        design_svg.rack(designs.unit(), "g99")
