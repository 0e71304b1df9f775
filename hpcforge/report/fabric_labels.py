"""Labels of cables as sheets to print: two for each cable, side by side, in the order of pulling.

An HTML page without a script, written piece by piece: 200,000 cables are no text to hold at once. Printed on A4 it has
four columns of labels, 46 mm wide and 22.5 mm high; a cable's two labels are neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape
from importlib.resources import files

from hpcforge.design.fabric.cabling import UNKNOWN, Cabled
from hpcforge.report.design_words import plain
from hpcforge.report.text import clean

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}: labels of cables</title>
<style>
{css}</style>
</head>
<body>
<header>
<h1>{title}: labels of cables</h1>
<p>Two for each cable, in the order of pulling. Print at full size (100 %), without margins of the browser. The first
line is the cable's name, the second this end, the third the other end.</p>
</header>
<main>
"""


def sheet(title: str, fabrics: Iterable[Cabled]) -> Iterator[str]:
    """Yield the page, fabric by fabric."""
    yield _HEAD.format(title=escape(clean(title)), css=_css())
    for cabling in fabrics:
        yield f"<h2>{escape(clean(cabling.fabric.name))}: {len(cabling.fabric.cables):,} cables</h2>\n<ol>\n"
        yield from _labels(cabling)
        yield "</ol>\n"
    yield "</main>\n</body>\n</html>\n"


@lru_cache
def _css() -> str:
    return files("hpcforge.report").joinpath("templates", "labels.css").read_text("utf-8")


def _labels(cabling: Cabled) -> Iterator[str]:
    everything = list(cabling.fabric.cables)
    for pull, index in enumerate(cabling.order, 1):
        cable = everything[index]
        name = escape(clean(cabling.labels.name(cable)))
        a = escape(clean(cabling.labels.end(cable.a, cable.a_port)))
        b = escape(clean(cabling.labels.end(cable.b, cable.b_port)))
        cut = f"no. {pull}{_cut(cabling, index)}"
        yield _label(name, cut, a, b) + _label(name, cut, b, a)


def _label(name: str, cut: str, here: str, there: str) -> str:
    return f"<li><b>{name}</b><p>{here}</p><p>to {there}</p><i>{cut}</i></li>\n"


def _cut(cabling: Cabled, cable: int) -> str:
    """ ", 5 m"."""
    return f", {plain(cabling.length_m[cable])} m" if cabling.model[cable] != UNKNOWN else ""
