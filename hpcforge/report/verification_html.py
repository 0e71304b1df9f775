"""A verification as one HTML page that needs nothing else: no network, no font, no script.

Every text goes through autoescape, with control characters made visible; drawings come from element trees.
"""

from __future__ import annotations

import math
import re
import shlex
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeGuard

from jinja2 import Environment

from hpcforge.blueprint.hostlist import fold
from hpcforge.report.pages import page_environment, put_text, px
from hpcforge.report.text import by_reason, clean, duration, moment, plural
from hpcforge.report.verification import PartReport, Report, ReportedVerdict, blamed_parts, bound
from hpcforge.run.result import UNREACHABLE
from hpcforge.verify.verdicts import Line

# The drawings of a verification: bars against their lines, sweeps, curves, and a matrix of nodes.
#
# They are SVG, made as element trees. Colours are classes of `verification.css`; nothing is said by colour alone.
MOST_BARS = 64
MOST_IN_MATRIX = 64  # nodes
_STEP = re.compile(r"\bstep ([0-9]{1,9})\b")
_WIDE = 330.0  # as a telephone shows it
_MOST_WIDE = 480.0
_LABEL, _BAR = 80.0, 170.0  # of a bar: where it begins, and how long it is at most
_CELL_NUMBERS = 16  # nodes of a matrix whose squares have numbers
_PLACES = ("host", "test")  # texts of a measurement that say where it was made


@dataclass(frozen=True)
class Series:
    """Points of a line, by x."""

    name: str
    kind: str  # class: value, reference, bound
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Chart:
    """A drawing and what it shows, in words. `more`: what was left out."""

    title: str
    svg: str
    more: str = ""


def charts(test: ReportedVerdict) -> list[Chart]:
    """Return all drawings that the numbers of a test allow."""
    found = [bars(test, name) for name, measure in test.measures.items() if measure.better]
    return [chart for chart in (*found, *sweeps(test), *curves(test), *matrices(test)) if chart is not None]


def bars(test: ReportedVerdict, name: str) -> Chart | None:
    """Draw the numbers of a measure by node, the worst first, with a stroke for each limit; None for a single one."""
    parts = [part for part in test.parts if part.measure == name and part.part]
    measure = test.measures[name]
    if len(parts) < 2:
        return None
    lines = [line for line in test.lines if line.measure == name and line.part is None]
    worst_first = sorted(parts, key=lambda part: -part.value if measure.better == "lower" else part.value)[:MOST_BARS]
    most = max([part.value for part in parts] + [line.limit for line in lines] + [1e-12])
    svg = _svg(_WIDE, 18.0 * len(worst_first) + 22, f"{name} by node")
    for row, part in enumerate(worst_first):
        y = 18.0 * row + 4
        put_text(svg, part.part, 0, y + 11, "label")
        wide = max(1.0, _BAR * part.value / most)
        word = _word(test, part)
        _rect(svg, _LABEL, y, wide, 13, f"bar {word}" if word else "bar")
        put_text(svg, f"{part.value:.4g} {word}".rstrip(), _LABEL + 4 + wide, y + 11, "number")
    bottom = 18.0 * len(worst_first) + 4
    for line in lines:
        x = _LABEL + _BAR * line.limit / most
        _stroke(svg, [(x, 0), (x, bottom)], "line" if line.refuses else "line shown")
        put_text(svg, f"{line.limit:.4g}", x - 10, bottom + 13, "tick")
    more = f"and {len(parts) - MOST_BARS} more nodes, all better" if len(parts) > MOST_BARS else ""
    paired = any("of_peer" in row and name in row for row in test.measurements)
    best = ", the best of its pairs" if paired else ""
    return Chart(f"{name}, {measure.unit}, by node{best}", _svg_text(svg), more)


def _word(test: ReportedVerdict, part: PartReport) -> str:
    """Return the word beside a bar, which is also its class."""
    named = test.isolation.named if test.isolation else ()
    if any(each.verdict == "bad" and each.nodes == (part.part,) for each in named):
        return "bad"
    return "missed" if part.missed else "low" if part.low else ""


def sweeps(test: ReportedVerdict) -> list[Chart]:
    """For each size in bytes the number measured, with the bound that holds for all."""
    sizes = [name for name, measure in test.measures.items() if measure.format == "size"]
    found = []
    for size in sizes[:1]:
        for name in (name for name, measure in test.measures.items() if measure.unit == "GB/s"):
            rows = [(row.get(size), row.get(name)) for row in test.measurements]
            points = [(float(x), float(y)) for x, y in rows if _positive(x) and _positive(y)]
            if len({x for x, _ in points}) < 2:
                continue
            series = [Series(name, "value", tuple(sorted(points)))]
            ends = (min(x for x, _ in points), max(x for x, _ in points))
            lines = [line for line in test.lines if line.measure == name and line.part in (None, "")]
            series += [Series(_said(line), "bound", ((ends[0], line.limit), (ends[1], line.limit))) for line in lines]
            found.append(Chart(f"{name} by message size", plot(series, log=True, x_size=True)))
    return found


def curves(test: ReportedVerdict) -> list[Chart]:
    """Numbers by training step against their reference, from measurements with `step` and from assertions."""
    groups: dict[str, tuple[dict[float, float], dict[float, float]]] = {}
    for row in test.measurements:
        step, loss, reference = row.get("step"), row.get("loss"), row.get("loss_expected")
        if _number(step) and _number(loss) and _number(reference):
            about = [text for key, text in row.items() if isinstance(text, str) and key not in _PLACES]
            got, expected = groups.setdefault(" ".join([*map(clean, about), "loss"]), ({}, {}))
            got[float(step)], expected[float(step)] = float(loss), float(reference)
    for assertion in test.assertions:
        at = _STEP.search(assertion.what)
        if at:
            what = clean((assertion.what[: at.start()] + assertion.what[at.end() :]).strip(" ,:"))
            got, expected = groups.setdefault(what, ({}, {}))
            got[float(at[1])], expected[float(at[1])] = assertion.got, assertion.expected
    return [
        Chart(
            f"{what} by step, against its reference",
            plot([Series("reference", "reference", _in_order(expected)), Series("measured", "value", _in_order(got))]),
        )
        for what, (got, expected) in groups.items()
        if len(got) > 1
    ]


def matrices(test: ReportedVerdict) -> list[Chart]:
    """For each measure and rail the numbers from node to node; the last one of each pair counts."""
    found = []
    for name, measure in test.measures.items():
        by_rail: dict[str, dict[tuple[str, str], float]] = {}
        for row in test.measurements:
            node, peer, value = row.get("of_node"), row.get("of_peer"), row.get(name)
            if isinstance(node, str) and isinstance(peer, str) and _number(value):
                ends = (peer, node) if row.get("of_direction") == "in" else (node, peer)
                by_rail.setdefault(str(row.get("of_rail", "")), {})[ends] = float(value)
        for rail, values in by_rail.items():
            nodes = [node for node in test.nodes if any(node in ends for ends in values)]
            title = f"{name}, {measure.unit}, from node to node" + (f", rail {rail}" if rail else "")
            more = f"the first {MOST_IN_MATRIX} of {len(nodes)} nodes; " if len(nodes) > MOST_IN_MATRIX else ""
            more += "row: the sender; a stroke: under 80 % of the median, a cross: under half of it"
            lower = measure.better == "lower"
            found.append(Chart(title, matrix(nodes[:MOST_IN_MATRIX], values, lower=lower), more))
    return found


def matrix(nodes: Sequence[str], values: Mapping[tuple[str, str], float], *, lower: bool = False) -> str:
    """Draw a square for each pair, from the row's node to the column's: its part of the median. Blank: not measured."""
    numbered = len(nodes) <= _CELL_NUMBERS
    cell, left, top = (34.0 if numbered else 10.0), 80.0, 18.0
    wide = left + cell * len(nodes) + 4
    svg = _svg(wide, top + cell * len(nodes) + 4, "numbers from node to node")
    svg.set("style", f"width: {px(wide)}px")
    ordered = sorted(values.values())
    middle = ordered[len(ordered) // 2] if ordered else 1.0
    for row, node in enumerate(nodes):
        if numbered or row % 4 == 0:
            put_text(svg, node, 0, top + cell * row + cell / 2 + 4, "label")
        if numbered:
            put_text(svg, node[-5:], left + cell * row + 1, 12, "tick")
        for column, peer in enumerate(nodes):
            value = values.get((node, peer))
            square = _rect(svg, left + cell * column, top + cell * row, cell - 1, cell - 1, "cell")
            if value is None:
                square.set("class", "cell none")
                continue
            ratio = (middle / value if value else 0.0) if lower else (value / middle if middle else 1.0)
            shade = 0 if ratio >= 0.95 else 1 if ratio >= 0.8 else 2 if ratio >= 0.5 else 3
            square.set("class", f"cell shade{shade}")
            ET.SubElement(square, "title").text = clean(f"{node} to {peer}: {value:.4g}, {ratio:.0%} of the median")
            _mark(svg, left + cell * column, top + cell * row, cell - 1, shade)
            if numbered:
                put_text(svg, f"{value:.3g}", left + cell * column + 2, top + cell * row + cell / 2 + 4, "tiny")
    return _svg_text(svg)


def _mark(svg: ET.Element, x: float, y: float, size: float, shade: int) -> None:
    """Put a stroke, or a cross, over a square that is low."""
    if shade >= 2:
        _stroke(svg, [(x, y + size), (x + size, y)], "mark")
    if shade == 3:
        _stroke(svg, [(x, y), (x + size, y + size)], "mark")


def plot(series: Sequence[Series], *, log: bool = False, x_size: bool = False) -> str:
    """Lines over x; `log`: both axes by powers, `x_size`: x is in bytes."""
    points = [point for each in series for point in each.points]
    scale = math.log10 if log else float
    xs, ys = [scale(x) for x, _ in points], [scale(y) for _, y in points]
    left, top, wide, high = 48.0, 10.0, 270.0, 140.0
    svg = _svg(_WIDE, top + high + 40 + 15 * len(series), "; ".join(each.name for each in series))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (scale(x) - min(xs)) / ((max(xs) - min(xs)) or 1.0)
        up = (scale(y) - min(ys)) / ((max(ys) - min(ys)) or 1.0)
        return left + wide * across, top + high * (1 - up)

    _stroke(svg, [(left, top), (left, top + high), (left + wide, top + high)], "axis")
    highest, lowest = max(y for _, y in points), min(y for _, y in points)
    put_text(svg, f"{highest:.3g}", 0, top + 10, "tick")
    put_text(svg, f"{lowest:.3g}", 0, top + high, "tick")
    for x in (min(x for x, _ in points), max(x for x, _ in points)):
        put_text(svg, _bytes(x) if x_size else f"{x:g}", at(x, lowest)[0] - 16, top + high + 15, "tick")
    for row, each in enumerate(series):
        _stroke(svg, [at(x, y) for x, y in each.points], f"curve {each.kind}")
        if each.kind == "value":
            for x, y in each.points[:200]:
                place = at(x, y)
                ET.SubElement(svg, "circle", {"class": "dot", "cx": px(place[0]), "cy": px(place[1]), "r": "2.5"})
        y = top + high + 34 + 15 * row
        _stroke(svg, [(0, y - 4), (22, y - 4)], f"curve {each.kind}")
        put_text(svg, each.name, 28, y, "label")
    return _svg_text(svg)


def _said(line: Line) -> str:
    return f"{line.bound.replace('_', ' ')} {line.limit:.4g}: {line.source}" + ("" if line.refuses else " (shown)")


def _bytes(size: float) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):g} {unit}"
    return f"{size:g} B"


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _positive(value: object) -> TypeGuard[float]:
    return _number(value) and value > 0


def _in_order(by_step: Mapping[float, float]) -> tuple[tuple[float, float], ...]:
    return tuple(sorted(by_step.items()))


def _svg(wide: float, high: float, said: str) -> ET.Element:
    box = f"0 0 {px(wide)} {px(high)}"
    style = f"width: 100%; max-width: {px(_MOST_WIDE)}px"
    return ET.Element("svg", {"viewBox": box, "role": "img", "aria-label": clean(said), "style": style})


def _rect(svg: ET.Element, x: float, y: float, wide: float, high: float, kind: str) -> ET.Element:
    place = {"x": px(x), "y": px(y), "width": px(wide), "height": px(high)}
    return ET.SubElement(svg, "rect", {"class": kind, **place})


def _stroke(svg: ET.Element, points: Sequence[tuple[float, float]], kind: str) -> None:
    path = " ".join(f"{px(x)},{px(y)}" for x, y in points)
    ET.SubElement(svg, "polyline", {"class": kind, "points": path})


def _svg_text(svg: ET.Element) -> str:
    return ET.tostring(svg, encoding="unicode")


_ASSERTIONS = 40  # rows of a test
_MOST_ROWS = 256  # of a table with a row a node
_MOST_BLAMED = 20  # in the box at the top
_MOST_SUMMED = 3  # in its sentence
_KIND = {"passed": "good", "pending": "warn", "not_run": "warn", "unknown": "warn"}


@dataclass(frozen=True)
class NodeRow:
    """The texts that nodes reported, by measure; `unusual` are those that differ from most nodes'."""

    nodes: str
    result: str
    texts: tuple[str, ...]
    unusual: tuple[bool, ...]


@dataclass(frozen=True)
class NodeProblem:
    """What keeps nodes from being tested, though no test blames them."""

    nodes: str
    what: str  # "fell out", "does not answer"
    why: str
    next_command: str


def verification_page(report: Report) -> str:
    """Return the page."""
    tests = [(verdict, charts(verdict), node_rows(verdict)) for verdict in report.verdicts]
    low = [(verdict, part) for verdict in report.verdicts if verdict.passed for part in verdict.low]
    blamed = blamed_parts(report.verdicts)
    problems = node_problems(report)
    return _environment().get_template("verification.html.j2").render(
        report=report,
        sentence=sentence(report),
        kind="bad" if not report.good else "warn" if report.not_tested or low else "good",
        blamed=blamed,
        problems=problems,
        nodes_of={verdict.test: verdict.nodes for verdict in report.verdicts},
        low=low,
        most_blamed=_MOST_BLAMED,
        identities={each.node: each for each in report.identities},
        again=_again(report, [] if problems else [part.test for part in blamed]),
        tests=tests,
        left_out=_left_out(report),
        tested=sorted({node for verdict in report.verdicts for node in verdict.nodes}),
        shown_assertions=_ASSERTIONS,
    )  # fmt: skip


def sentence(report: Report) -> str:
    """Return the result in one sentence."""
    ran, passed = len(report.verdicts), sum(verdict.passed for verdict in report.verdicts)
    if not ran:
        return "Nothing was tested"
    low = sum(len(verdict.low) for verdict in report.verdicts if verdict.passed)
    but = f"; {plural(low, 'number')} low" if low else ""
    if passed == ran and not report.good:
        problems = [f"{each.nodes} {each.what}" for each in node_problems(report)[:_MOST_SUMMED]]
        return f"{'; '.join(problems)}: no test failed on the other nodes{but}"
    if passed == ran:
        return f"{'The test' if ran == 1 else f'All {ran} tests'} passed{but}"
    return f"{passed} of {plural(ran, 'test')} passed{but}"


def node_problems(report: Report) -> list[NodeProblem]:
    """Return the nodes without which tests ran, and those out of service that no test blames, by reason."""
    blamed = {node for part in blamed_parts(report.verdicts) for node in part.nodes}
    silent = {
        node: why.removeprefix(UNREACHABLE) for node, why in report.missing.items() if why.startswith(UNREACHABLE)
    }
    status = shlex.join(["hpcforge", "status", report.source.blueprint])
    causes = (
        ("fell out", {node: why.removeprefix("drained: ") for node, why in report.fell_out.items()}, ""),
        ("does not answer", silent, status),
        ("takes no job", {node: why for node, why in report.missing.items() if node not in silent}, ""),
        ("is drained", {node: why for node, why in report.drained.items() if node not in blamed}, ""),
        ("is not drained", {node: why for node, why in report.not_drained.items() if node not in blamed}, ""),
    )
    return [
        NodeProblem(nodes, what, why, command or f"scontrol show node {nodes}")
        for what, reasons, command in causes
        for nodes, _, why in by_reason(reasons)
    ]


def node_rows(test: ReportedVerdict) -> list[NodeRow]:
    """Return a row for each node of a test whose nodes report texts: faults first, then what differs from most nodes.

    Of more than `_MOST_ROWS` nodes, those that are alike share a row.
    """
    measures = [name for name, measure in test.measures.items() if measure.format == "text"]
    if not measures:
        return []
    reported = {str(row.get("host", "")): row for row in test.measurements}
    texts = {node: tuple(_text(reported.get(node, {}).get(name)) for name in test.measures) for node in test.nodes}
    usual = [Counter(column).most_common(1)[0][0] for column in zip(*texts.values(), strict=True)]
    formats = [measure.format for measure in test.measures.values()]
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for node in test.nodes:
        key = (_node_result(test, node, reported), texts[node])
        alike.setdefault((*key, node) if len(test.nodes) <= _MOST_ROWS else key, []).append(node)  # type: ignore[arg-type]
    rows = [
        NodeRow(
            fold(nodes),
            result,
            cells,
            tuple(form == "text" and cell != most for form, cell, most in zip(formats, cells, usual, strict=True)),
        )
        for (result, cells, *_), nodes in alike.items()
    ]
    return sorted(rows, key=lambda row: (row.result == "reported", not any(row.unusual)))[:_MOST_ROWS]


def _node_result(test: ReportedVerdict, node: str, reported: Mapping[str, object]) -> str:
    status = test.status.replace("_", " ")
    if node in test.reasons:
        return f"{status}: {test.reasons[node]}"
    if node == test.node:
        return f"{status}: {test.detail}"
    return "reported" if node in reported else "no report"


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "-" if value in (None, "") else str(value)


def _again(report: Report, tests: list[str]) -> str:
    """Return the command that runs these tests again, or all where none is named."""
    options = [word for test in dict.fromkeys(tests) for word in ("--test", test)]
    return shlex.join(["hpcforge", "verify", report.source.blueprint, *options])


def _left_out(report: Report) -> list[tuple[str, str]]:
    """Nodes that no test spans, or that a test left out, by reason."""
    every = dict(report.left_out)
    for verdict in report.verdicts:
        every |= verdict.left_out
    every |= report.fell_out
    return [(nodes, why) for nodes, _, why in by_reason(every)]


def _kind(verdict: ReportedVerdict) -> str:
    return "warn" if verdict.passed and verdict.low else _KIND.get(verdict.status, "bad")


def _result(verdict: ReportedVerdict) -> str:
    return verdict.status.replace("_", " ") + (", low" if verdict.passed and verdict.low else "")


@lru_cache
def _environment() -> Environment:
    return page_environment({
        "duration": duration,
        "moment": moment,
        "hostlist": lambda nodes: fold(nodes) if nodes else "no node",
        "kind_of": _kind,
        "result_of": _result,
        "bound": bound,
        "said": lambda status: status.replace("_", " "),
        "number": lambda value: f"{value:.6g}",
    })  # fmt: skip
