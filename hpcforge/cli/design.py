"""`hpcforge design`: racks, power and cooling, on paper."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcforge.cli import options
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.failures import UsageError
from hpcforge.cluster import Loaded, load
from hpcforge.facility.compute import design as compute
from hpcforge.facility.design import Design, to_json
from hpcforge.facility.training import Run
from hpcforge.report import design_csv, design_text

Table = Literal["power", "bom"]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge design blueprints/dgx-h100-unit.yaml --html design.html")(design)


def design(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    as_json: options.Json = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one page that needs no network.", metavar="FILE")
    ] = None,
    svg: Annotated[
        str | None, typer.Option("--svg", help="Print the elevation of one rack as SVG.", metavar="rack:NAME")
    ] = None,
    csv: Annotated[
        Table | None, typer.Option("--csv", help="Print a table: power of every PDU, or the bill of materials.")
    ] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            "--train",
            help="Estimate a training run: parameters, tokens and the part of the peak that is reached. Repeatable.",
            metavar="N:D:PART",
            show_default=False,
        ),
    ] = None,
    price_per_kwh: Annotated[
        float | None, typer.Option(help="Price of a kWh, for the cost of a training run.", min=0, show_default=False)
    ] = None,
) -> int:
    """Lay out racks, power and cooling, and judge them. Looks at no node; exit status 3 if a rule is broken."""
    runs = [_run(text, price_per_kwh) for text in train or ()]
    result = _design(load(blueprint, inventory, judged=False), runs)
    if html is not None:
        from hpcforge.report import design_html  # noqa: PLC0415 - pages are large, and seldom asked for

        html.write_text(design_html.page(result), encoding="utf-8")
        sys.stderr.write(f"written: {html}\n")
    for text in _results(result, as_json, csv, svg):
        sys.stdout.write(text)
    if not (as_json or csv or svg):
        sys.stdout.write(design_text.summary(result))
    broken = any(remark.severity == "error" for remark in result.diagnostics)
    return Exit.INVALID if broken else Exit.DONE


def _design(loaded: Loaded, runs: list[Run]) -> Design:
    return compute(loaded.facility, str(loaded.blueprint_path), loaded.remarks, runs)


def _results(result: Design, as_json: bool, csv: Table | None, svg: str | None) -> Iterator[str]:
    if as_json + (csv is not None) + (svg is not None) > 1:
        raise UsageError("--json, --csv and --svg all go to stdout", "ask for one of them at a time")
    if as_json:
        yield json.dumps(to_json(result), indent=2) + "\n"
    if csv:
        yield design_csv.power(result) if csv == "power" else design_csv.bom(result)
    if svg is not None:
        kind, _, name = svg.partition(":")
        if kind != "rack" or name not in {rack.name for rack in result.racks}:
            raise UsageError(f"there is no {svg} to draw", "--svg rack:NAME, with a rack of site.racks")
        from hpcforge.report import design_svg  # noqa: PLC0415

        yield design_svg.rack(result, name)


def _run(text: str, price_per_kwh: float | None) -> Run:
    """Read `70e9:2e12:0.4`."""
    try:
        parameters, tokens, utilisation = map(float, text.split(":"))
    except ValueError:
        parameters = tokens = utilisation = 0.0
    if not (0 < parameters < 1e18 and 0 < tokens < 1e21 and 0 < utilisation <= 1):
        raise UsageError(f"{text!r} is not a training run", "parameters:tokens:utilisation, as in 70e9:2e12:0.4")
    return Run(parameters, tokens, utilisation, price_per_kwh)
