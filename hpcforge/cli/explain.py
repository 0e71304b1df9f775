"""`hpcforge explain`: the rules behind codes such as POWER-003."""

from __future__ import annotations

import json

from hpcforge.blueprint.diagnostics import did_you_mean
from hpcforge.cli.exit_codes import Exit
from hpcforge.errors import UsageError
from hpcforge.fabric.rules import RULES as FABRIC_RULES
from hpcforge.facility.rules import RULES as FACILITY_RULES
from hpcforge.facility.rules import explained
from hpcforge.report import printing
from hpcforge.software.rules import rules as software_rules
from hpcforge.storage.rules import RULES as STORAGE_RULES


def explain(code: str | None, as_json: bool) -> int:
    """Run `hpcforge explain`. Returns the exit status."""
    known = {**FACILITY_RULES, **FABRIC_RULES, **STORAGE_RULES, **software_rules()}
    if code is not None and code.upper() not in known:
        raise UsageError(
            f"there is no rule {code}", did_you_mean(code, map(str.lower, known)) or "hpcforge explain lists them"
        )
    rules = list(known.values()) if code is None else [known[code.upper()]]
    if as_json:
        entries = [vars(rule) for rule in rules]
        printing.result(json.dumps({"schema_version": 1, "rules": entries}, indent=2) + "\n")
    else:
        printing.result("\n".join(map(explained, rules)))
    return Exit.DONE
