"""What all drawings are made of."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hpcforge.report.text import clean


def px(value: float) -> str:
    """A number as SVG takes it, to a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def put_text(parent: ET.Element, text: str, x: float, y: float, kind: str) -> ET.Element | None:
    """Text of a class at a place; nothing for none."""
    if not text:
        return None
    element = ET.SubElement(parent, "text", {"class": kind, "x": px(x), "y": px(y)})
    element.text = clean(text)
    return element
