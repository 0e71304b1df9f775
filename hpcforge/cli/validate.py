"""`hpcforge validate`: are the files right?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hpcforge.blueprint.diagnostics import Diagnostic, InvalidInput, render_all, to_json, within_limits
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import load
from hpcforge.program import typed
from hpcforge.report import printing


def validate(blueprint: Path, inventory: Path | None, as_json: bool) -> int:
    """Do what the help of `hpcforge validate` says; the exit status."""
    try:
        loaded = load(blueprint, inventory)
    except InvalidInput as error:
        if not as_json:
            raise
        printing.result(_json(error.diagnostics))
        return Exit.INVALID
    code = Exit.INVALID if any(entry.severity == "error" for entry in loaded.diagnostics) else Exit.DONE
    if as_json:
        printing.result(_json((*loaded.diagnostics, *loaded.not_checked)))
        return code
    printing.note(render_all((*loaded.diagnostics, *loaded.not_checked)), "diagnostics")
    if code:
        return code
    again = typed("plan", blueprint, inventory=inventory)
    printing.note(f"{blueprint} is valid: {len(loaded.cluster.nodes)} nodes. Next: {again}\n")
    return Exit.DONE


def _json(diagnostics: Sequence[Diagnostic]) -> str:
    shown, more = within_limits(diagnostics)
    entries = [to_json(diagnostic) for diagnostic in shown]
    return json.dumps({"schema_version": 1, "diagnostics": entries, "not_shown": more}, indent=2) + "\n"
