"""A design in the form that is asked for: a page, a summary, a table, JSON or a drawing."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hpcforge.cluster import Loaded
from hpcforge.cluster.design import Design, to_json
from hpcforge.errors import UsageError
from hpcforge.report import design_csv, design_text


def design_page(whole: Design, loaded: Loaded) -> str:
    """Return the page."""
    from hpcforge.report import design_html  # noqa: PLC0415 - pages are large, and seldom asked for

    return design_html.page(whole, loaded.cables)


def design_texts(
    loaded: Loaded, whole: Design | None, columns: int | None, *, as_json: bool, csv: str | None, svg: str | None
) -> Iterator[str]:
    """Yield what is printed, piece by piece: JSON, the table `csv`, the drawing `svg`, or the summary.

    Without `whole` only tables of cables and ports can be asked for. Raises UsageError if there is no such drawing.
    """
    if csv == "cables":
        yield from design_csv.cables(loaded.cables)
    elif csv == "ports":
        yield from design_csv.ports(loaded.cables)
    elif whole is None:
        return
    elif csv:
        yield design_csv.power(whole) if csv == "power" else design_csv.bom(whole)
    elif as_json:
        yield json.dumps(to_json(whole), indent=2) + "\n"
    elif svg is not None:
        yield _drawing(loaded, whole, svg)
    else:
        yield design_text.summary(whole, columns)


def _drawing(loaded: Loaded, whole: Design, svg: str) -> str:
    from hpcforge.report import design_svg, fabric_svg  # noqa: PLC0415 - drawings are seldom asked for

    kind, _, name = svg.partition(":")
    if kind == "rack" and name in {rack.name for rack in whole.racks}:
        return design_svg.rack(whole, name)
    fabrics = {fabric.name: fabric for fabric in loaded.fabrics}
    if kind == "fabric" and name in fabrics:
        return fabric_svg.drawing(fabrics[name])
    hint = "--svg rack:NAME, with a rack of site.racks, or fabric:NAME, with one of `fabrics`"
    raise UsageError(f"there is no {svg} to draw", hint)
