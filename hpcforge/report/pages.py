"""The common parts of all pages and their drawings."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hpcforge.report.text import clean


def page_environment(filters: Mapping[str, Callable[..., object]]) -> Environment:
    """Return the environment for the templates of pages, with the filters of a page.

    Text is escaped and has no control characters; only the filter `drawing` passes markup, from `put_text` and element
    trees. An undefined name is an error.
    """
    environment = Environment(
        loader=PackageLoader("hpcforge.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"drawing": Markup, **filters}
    return environment


def _printable(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def px(value: float) -> str:
    """Format a number for SVG, to a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def put_text(parent: ET.Element, text: str, x: float, y: float, kind: str) -> ET.Element | None:
    """Text of a class at a place; nothing for none."""
    if not text:
        return None
    element = ET.SubElement(parent, "text", {"class": kind, "x": px(x), "y": px(y)})
    element.text = clean(text)
    return element
