"""`hpcforge explain`: the rules behind codes such as POWER-003, and the lines of smoke tests."""

from __future__ import annotations

import json
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

from hpcforge import bundled
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.node_selection import tests_named
from hpcforge.cluster import load
from hpcforge.design.fabric.rules import RULES as FABRIC_RULES
from hpcforge.design.facility.rules import RULES as FACILITY_RULES
from hpcforge.design.facility.rules import DesignRule, explained
from hpcforge.design.storage.rules import RULES as STORAGE_RULES
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.lines_text import lines_json, lines_text
from hpcforge.report.text import one_line
from hpcforge.run.expectations import Expectations
from hpcforge.software.rules import rules as software_rules


def is_rule(code: str) -> bool:
    """Tell codes such as POWER-003 from smoke tests."""
    return code.upper() in _rules()


def _rules() -> dict[str, DesignRule]:
    return {**FACILITY_RULES, **FABRIC_RULES, **STORAGE_RULES, **software_rules()}


def explain(code: str | None, as_json: bool) -> int:
    """Run `hpcforge explain`. Returns the exit status."""
    known = _rules()
    if code is not None and code.upper() not in known:
        raise UsageError(f"there is no rule {one_line(code)}", _hint(code, known))
    rules = list(known.values()) if code is None else [known[code.upper()]]
    if as_json:
        entries = [vars(rule) for rule in rules]
        printing.result(json.dumps({"schema_version": 1, "rules": entries}, indent=2) + "\n")
    else:
        printing.result("\n".join(map(explained, rules)))
    return Exit.DONE


def _hint(code: str, rules: Collection[str]) -> str:
    """Return the nearest codes and shipped smoke tests."""
    tests = sorted(path.parent.name for path in bundled.smoke_tests().glob("*/test.yaml"))
    if code in tests:
        return f"it is a smoke test; add the blueprint that has it: hpcforge explain {code} BLUEPRINT"
    word = code.upper().rstrip("0123456789")
    number = code[len(word) :]
    families = {rule.rpartition("-")[0] for rule in rules}
    same = [f"{family}-{number:0>3}" for family in get_close_matches(word.rstrip("-_ "), families)]
    near = [rule for rule in same if rule in rules] or get_close_matches(code.upper(), [*rules])
    names = [*near, *get_close_matches(code.lower(), tests)]
    return f"nearest: {', '.join(names)}" if names else "codes: hpcforge explain; a smoke test: add its blueprint"


def explain_test(name: str, blueprint: Path, inventory: Path | None, as_json: bool) -> int:
    """Run `hpcforge explain TEST BLUEPRINT`. Returns the exit status."""
    loaded = load(blueprint, inventory)
    cluster = loaded.cluster
    expected = Expectations(cluster, loaded.fabrics, loaded.room.catalog.gpus)
    found = [(test, expected.derived(test, test.nodes)) for test in tests_named(cluster, [name])]
    printing.result(json.dumps(lines_json(found), indent=2) + "\n" if as_json else lines_text(found))
    return Exit.DONE
