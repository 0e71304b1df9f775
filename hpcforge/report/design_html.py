"""A design as one HTML page that needs nothing else: no network, no font. Prints as it reads.

Templates are in `templates/`. Every text of the design goes through autoescape, with control characters made visible;
drawings come from element trees. A content policy in the page forbids loading, and scripts but for the one that
searches tables of cables (`fabric_html`), should both ever fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import Environment
from markupsafe import Markup

from hpcforge.cluster.design import Design
from hpcforge.design.fabric.cabling import Cabled
from hpcforge.design.facility.design import Remark, Severity
from hpcforge.report import design_svg, fabric_html, fabric_svg, fabric_words, storage_text
from hpcforge.report import design_words as words
from hpcforge.report.design_charts import feed_rows, room
from hpcforge.report.fabric_words import CABLES
from hpcforge.report.pages import page_environment
from hpcforge.report.similar_racks import Alike, alike, in_row_order
from hpcforge.report.text import clean, plural

_DRAWN_EACH = 64  # racks; above it those that are alike are drawn once, and tables of more kinds are folded
_MOST_DRAWN = 64  # drawings of a large site
_MOST_REMARKS = 200  # of each severity


@dataclass(frozen=True)
class DesignVerdict:
    """Whether the design holds, and how many remarks there are of each severity."""

    sentence: str
    kind: str  # "good", "warn", "bad"
    errors: int
    warnings: int
    not_checked: int


@dataclass(frozen=True)
class Remarks:
    """Remarks of one severity; `more` were left out."""

    severity: Severity
    shown: tuple[Remark, ...]
    more: int


def page(design: Design, cabled: Sequence[Cabled] = ()) -> str:
    """Return the HTML page; `cabled` has the fabrics of the design with their cables."""
    racks = in_row_order(design)
    groups = alike(racks, phases=False)
    large = len(design.racks) > _DRAWN_EACH
    drawn = groups[:_MOST_DRAWN] if large else tuple(Alike((rack.name,), rack) for rack in racks)
    return environment().get_template("design.html.j2").render(
        design=design,
        verdict=_verdict(design),
        remarks=_remarks(design.diagnostics),
        feeds=(feeds := feed_rows(design)),
        feeds_over=sum(bool(feed.over) for feed in feeds),
        room=room(design, large=large),
        groups=groups,
        pdu_groups=[group for group in alike(racks, phases=True) if group.rack.pdus],
        large=large,
        drawings=[(group, Markup(svg)) for group, svg in zip(drawn, design_svg.elevations(drawn), strict=True)],  # noqa: S704
        undrawn=[name for group in groups[_MOST_DRAWN:] for name in group.names] if large else [],
        most_open=_DRAWN_EACH,
        one_lost=words.one_lost(design),
        used_feeds=sum(bool(feed.racks) for feed in design.feeds),
        racks_used_u=sum(rack.used_u for rack in design.racks),
        racks_free_u=_sum_known([rack.free_u for rack in design.racks]),
        weight_kg=sum(rack.weight_kg for rack in design.racks),
        weight_unknown=sum(len(rack.weight_unknown) for rack in design.racks),
        proposed=any(position.placed == "proposed" for rack in design.racks for position in rack.elevation),
        rack_css=Markup(design_svg.css()),  # noqa: S704 - our own file
        fabrics=(fabrics := fabric_html.shown(design.fabrics, cabled)),
        fabric_css=Markup(fabric_svg.css()),  # noqa: S704
        cable_kinds=CABLES,
        most_nodes=fabric_html.MOST_NODES,
        script=Markup(fabric_html.script()) if any(fabric.cables for fabric in fabrics) else "",  # noqa: S704
        script_policy=Markup(fabric_html.script_policy()),  # noqa: S704
    )  # fmt: skip


@lru_cache
def environment() -> Environment:
    """What fills the templates of the design and of acceptance reports."""
    return page_environment({
        "power": words.power,
        "amps": words.amps,
        "whole": words.whole,
        "plain": words.plain,
        "weight": words.weight,
        "tons": words.tons,
        "thousands": "{:,}".format,
        "share": words.share,
        "magnitude": words.magnitude,
        "names": words.names,
        "counted": plural,
        "marked": _marked,
        "contents": design_svg.contents,
        "group_name": design_svg.summary,
        "rate": fabric_words.rate,
        "nodes_said": fabric_words.nodes_said,
        "cables_said": fabric_words.cables_said,
        "cut_said": fabric_words.cut_said,
        "ratios_said": fabric_words.ratios_said,
        "ways_said": fabric_words.ways_said,
        "run_said": fabric_html.run_said,
        "made_of": storage_text.made_of,
        "holds": storage_text.holds,
        "carries": storage_text.carries,
        "gb_per_s": storage_text.rate,
    })  # fmt: skip


def _marked(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    pieces = clean(text).split("`")
    if len(pieces) % 2 == 0:  # one is left over
        return Markup("{}").format(clean(text))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(piece) if index % 2 else piece for index, piece in enumerate(pieces))


def _sum_known(figures: Sequence[int | None]) -> int | None:
    """The sum, None as soon as one is not known."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if len(known) == len(figures) else None


def _verdict(design: Design) -> DesignVerdict:
    counts = dict.fromkeys(("error", "warning", "not-checked"), 0)
    for remark in design.diagnostics:
        counts[remark.severity] += 1
    errors, warnings, unchecked = counts["error"], counts["warning"], counts["not-checked"]
    if errors:
        return DesignVerdict("This design does not hold", "bad", errors, warnings, unchecked)
    if not design.has_site:
        return DesignVerdict("No site is described, so no room was designed", "warn", errors, warnings, unchecked)
    if warnings or unchecked:
        said = "This design holds in all that was checked" if unchecked else "This design holds, with warnings"
        return DesignVerdict(said, "warn" if warnings else "good", errors, warnings, unchecked)
    return DesignVerdict("This design holds", "good", errors, warnings, unchecked)


def _remarks(remarks: Sequence[Remark]) -> list[Remarks]:
    severities: tuple[Severity, ...] = ("error", "warning", "not-checked")
    by_severity = ((severity, [r for r in remarks if r.severity == severity]) for severity in severities)
    return [
        Remarks(severity, tuple(found[:_MOST_REMARKS]), max(0, len(found) - _MOST_REMARKS))
        for severity, found in by_severity
        if found
    ]
