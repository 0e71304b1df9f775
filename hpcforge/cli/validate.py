"""`hpcforge validate`: are the files right?"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import typer

from hpcforge.blueprint.diagnostics import Diagnostic, InvalidInput, render_all, to_json, within_limits
from hpcforge.cli import options
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.program import typed
from hpcforge.cluster import load


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        epilog="Example: hpcforge validate blueprints/rehearsal.yaml",
    )(validate)


def validate(blueprint: options.Blueprint, inventory: options.Inventory = None, as_json: options.Json = False) -> int:
    """Check a blueprint and its inventory: every error at once, with place and hint. Looks at no node."""
    try:
        loaded = load(blueprint, inventory, judged=False)
    except InvalidInput as error:
        if not as_json:
            raise
        sys.stdout.write(_json(error.diagnostics))
        return Exit.INVALID
    code = Exit.INVALID if any(entry.severity == "error" for entry in loaded.diagnostics) else Exit.DONE
    if as_json:
        sys.stdout.write(_json((*loaded.diagnostics, *loaded.not_checked)))
        return code
    sys.stderr.write(render_all((*loaded.diagnostics, *loaded.not_checked)))
    if code:
        return code
    again = typed("plan", blueprint, inventory=inventory)
    sys.stderr.write(f"{blueprint} is valid: {len(loaded.cluster.nodes)} nodes. Next: {again}\n")
    return Exit.DONE


def _json(diagnostics: Sequence[Diagnostic]) -> str:
    shown, more = within_limits(diagnostics)
    entries = [to_json(diagnostic) for diagnostic in shown]
    return json.dumps({"schema_version": 1, "diagnostics": entries, "not_shown": more}, indent=2) + "\n"
