"""`hpcforge design`: racks, power and cooling, fabrics and cables, on paper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import DesignTable
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.design import Design, designed, to_json
from hpcforge.errors import UsageError
from hpcforge.report import design_csv, design_text, printing


def design(
    *,
    blueprint: Path,
    inventory: Path | None,
    as_json: bool,
    html: Path | None,
    svg: str | None,
    csv: DesignTable | None,
) -> int:
    """Run `hpcforge design`. Returns the exit status."""
    if as_json + (csv is not None) + (svg is not None) > 1:
        raise UsageError("--json, --csv and --svg all write to standard output", "use one of them at a time")
    loaded = load(blueprint, inventory)
    whole = None if csv in ("cables", "ports") and html is None else designed(loaded, str(loaded.blueprint_path))
    if html is not None and whole is not None:
        from hpcforge.report import design_html  # noqa: PLC0415 - pages are large, and seldom asked for

        printing.page(html, design_html.page(whole, loaded.cables))
    data = as_json or csv is not None or svg is not None
    for text in _results(loaded, whole, as_json, csv, svg):
        printing.result(text, None if data else "design")
    return Exit.INVALID if any(remark.severity == "error" for remark in loaded.remarks) else Exit.DONE


def _results(
    loaded: Loaded, whole: Design | None, as_json: bool, csv: DesignTable | None, svg: str | None
) -> Iterator[str]:
    """What goes to stdout, piece by piece. Without `whole` only tables of cables and ports can be asked for."""
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
        yield design_text.summary(whole, printing.columns())


def _drawing(loaded: Loaded, whole: Design, svg: str) -> str:
    from hpcforge.report import design_svg, fabric_svg  # noqa: PLC0415

    kind, _, name = svg.partition(":")
    if kind == "rack" and name in {rack.name for rack in whole.racks}:
        return design_svg.rack(whole, name)
    fabrics = {fabric.name: fabric for fabric in loaded.fabrics}
    if kind == "fabric" and name in fabrics:
        return fabric_svg.drawing(fabrics[name])
    hint = "--svg rack:NAME, with a rack of site.racks, or fabric:NAME, with one of `fabrics`"
    raise UsageError(f"there is no {svg} to draw", hint)
