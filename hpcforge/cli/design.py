"""`hpcforge design`: racks, power and cooling, fabrics and cables, on paper."""

from __future__ import annotations

from pathlib import Path

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import DesignTable
from hpcforge.cluster import load
from hpcforge.cluster.design import designed
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.design_forms import design_page, design_texts


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
        printing.page(html, design_page(whole, loaded))
    data = as_json or csv is not None or svg is not None
    for text in design_texts(loaded, whole, printing.columns(), as_json=as_json, csv=csv, svg=svg):
        printing.result(text, None if data else "design")
    return Exit.INVALID if any(remark.severity == "error" for remark in loaded.remarks) else Exit.DONE
