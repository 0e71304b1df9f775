"""A design in each form for standard output: a summary, a table, JSON or a drawing."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hpcforge.cluster import Loaded
from hpcforge.cluster.design import Design, to_json
from hpcforge.errors import UsageError
from hpcforge.report.design import tables, text


def design_texts(
    loaded: Loaded, design: Design | None, columns: int | None, *, as_json: bool, csv: str | None, svg: str | None
) -> Iterator[str]:
    """Yield what is printed, piece by piece: JSON, the table `csv`, the drawing `svg`, or the summary.

    Without `design` only tables of cables and ports can be asked for. Raises UsageError if there is no such drawing.
    """
    if csv == "cables":
        yield from tables.cables(loaded.cables)
    elif csv == "ports":
        yield from tables.ports(loaded.cables)
    elif design is None:
        return
    elif csv:
        yield tables.power(design) if csv == "power" else tables.bom(design)
    elif as_json:
        yield json.dumps(to_json(design), indent=2) + "\n"
    elif svg is not None:
        yield _drawing(loaded, design, svg)
    else:
        yield text.summary(design, columns)


def _drawing(loaded: Loaded, design: Design, svg: str) -> str:
    from hpcforge.report.design import fabric_svg, rack_svg  # noqa: PLC0415 - drawings are seldom asked for

    kind, _, name = svg.partition(":")
    if kind == "rack" and name in {rack.name for rack in design.racks}:
        return rack_svg.rack(design, name)
    fabrics = {fabric.name: fabric for fabric in loaded.fabrics}
    if kind == "fabric" and name in fabrics:
        return fabric_svg.drawing(fabrics[name])
    hint = "--svg rack:NAME, with a rack of site.racks, or fabric:NAME, with one of `fabrics`"
    raise UsageError(f"there is no {svg} to draw", hint)
