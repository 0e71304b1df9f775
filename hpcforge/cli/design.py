"""`hpcforge design`: racks, power and cooling, fabrics and cables, on paper."""

from __future__ import annotations

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
    pass


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
    from hpcforge.report.design import design_texts

    data = options.as_json + (options.csv is not None) + (options.svg is not None)
    if data > 1:
        raise UsageError("--json, --csv and --svg all write to standard output", "use one at a time")
    loaded, html = load(options.blueprint, options.inventory), options.html
    needless = options.csv in ("cables", "ports") and html is None
    site_design = None if needless else designed(loaded, str(loaded.blueprint_path))
    if html is not None and site_design is not None:
        from hpcforge.report.html.design import design_page

        printing.page(html, design_page(site_design, loaded.cables))
    for text in design_texts(
        loaded, site_design, printing.columns(), as_json=options.as_json, csv=options.csv, svg=options.svg
    ):
        printing.result(text)
    return Exit.INVALID if any(remark.severity == "error" for remark in loaded.remarks) else Exit.DONE
