"""`hpcforge explain`: what is behind a code."""

from __future__ import annotations

import json

from hpcforge.blueprint.diagnostics import did_you_mean
from hpcforge.cli.exit_codes import Exit
from hpcforge.errors import UsageError
from hpcforge.fabric.rules import RULES as FABRIC_RULES
from hpcforge.facility.rules import RULES as FACILITY_RULES
from hpcforge.facility.rules import explained
from hpcforge.report import printing

RULES = {**FACILITY_RULES, **FABRIC_RULES}


def explain(code: str | None, as_json: bool) -> int:
    """Do what the help of `hpcforge explain` says; the exit status."""
    if code is not None and code.upper() not in RULES:
        raise UsageError(
            f"there is no rule {code}", did_you_mean(code, map(str.lower, RULES)) or "hpcforge explain lists them"
        )
    rules = list(RULES.values()) if code is None else [RULES[code.upper()]]
    if as_json:
        entries = [vars(rule) for rule in rules]
        printing.result(json.dumps({"schema_version": 1, "rules": entries}, indent=2) + "\n")
    else:
        printing.result("\n".join(map(explained, rules)))
    return Exit.DONE
