"""`hpcforge design`: racks, power and cooling, fabrics and cables, on paper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson, Blueprint, Inventory
from hpcforge.cli.verb import verb
from hpcforge.errors import UsageError
from hpcforge.report import printing

if TYPE_CHECKING:
    from hpcforge.cluster import Loaded
    from hpcforge.cluster.design import Design


@dataclass(frozen=True, kw_only=True)
class DesignOptions:
    """Options of `hpcforge design`."""

    blueprint: Blueprint
    inventory: Inventory = None
    as_json: AsJson = False
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the design as one self-contained HTML page.", metavar="FILE")
    ] = None
    svg: Annotated[
        str | None,
        typer.Option("--svg", help="Print a drawing of one rack or one fabric.", metavar="rack:NAME|fabric:NAME"),
    ] = None
    csv: Annotated[
        Literal["power", "bom", "cables", "ports"] | None,
        typer.Option("--csv", help="Print a table: PDU power, bill of materials, cables or switch ports."),
    ] = None


@verb(epilog="Example: hpcforge design blueprints/dgx-h100-unit.yaml --html design.html")
def design(options: DesignOptions) -> int:
    """Contacts no node. Exit code 3 if a rule is broken."""
    from hpcforge.cluster import load
    from hpcforge.cluster.design import designed

    data = options.as_json + (options.csv is not None) + (options.svg is not None)
    if data > 1:
        raise UsageError("--json, --csv and --svg all write to standard output", "use one of them at a time")
    loaded, html = load(options.blueprint, options.inventory), options.html
    needless = options.csv in ("cables", "ports") and html is None
    whole = None if needless else designed(loaded, str(loaded.blueprint_path))
    if html is not None and whole is not None:
        from hpcforge.report import design_html

        printing.page(html, design_html.page(whole, loaded.cables))
    for text in _results(loaded, whole, options):
        printing.result(text, None if data else "design")
    return Exit.INVALID if any(remark.severity == "error" for remark in loaded.remarks) else Exit.DONE


def _results(loaded: Loaded, whole: Design | None, options: DesignOptions) -> Iterator[str]:
    """What goes to stdout, piece by piece. Without `whole` only tables of cables and ports can be asked for."""
    from hpcforge.cluster.design import to_json
    from hpcforge.report import design_csv, design_text

    csv = options.csv
    if csv == "cables":
        yield from design_csv.cables(loaded.cables)
    elif csv == "ports":
        yield from design_csv.ports(loaded.cables)
    elif whole is None:
        return
    elif csv:
        yield design_csv.power(whole) if csv == "power" else design_csv.bom(whole)
    elif options.as_json:
        yield json.dumps(to_json(whole), indent=2) + "\n"
    elif options.svg is not None:
        yield _drawing(loaded, whole, options.svg)
    else:
        yield design_text.summary(whole, printing.columns())


def _drawing(loaded: Loaded, whole: Design, svg: str) -> str:
    from hpcforge.report import design_svg, fabric_svg

    kind, _, name = svg.partition(":")
    if kind == "rack" and name in {rack.name for rack in whole.racks}:
        return design_svg.rack(whole, name)
    fabrics = {fabric.name: fabric for fabric in loaded.fabrics}
    if kind == "fabric" and name in fabrics:
        return fabric_svg.drawing(fabrics[name])
    hint = "--svg rack:NAME, with a rack of site.racks, or fabric:NAME, with one of `fabrics`"
    raise UsageError(f"there is no {svg} to draw", hint)
