"""`hpcforge explain`: the rules and checks behind codes such as POWER-003, and the lines of smoke tests."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson, Inventory
from hpcforge.cli.verb import verb
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import one_line

if TYPE_CHECKING:
    from hpcforge.blueprint.validate import InputCheck
    from hpcforge.design.facility.rules import DesignRule


@dataclass(frozen=True, kw_only=True)
class ExplainOptions:
    """Options of `hpcforge explain`."""

    code: Annotated[
        str | None,
        typer.Argument(help="The code, such as POWER-003, or a smoke test. Default: all codes.", show_default=False),
    ] = None
    blueprint: Annotated[
        Path | None,
        typer.Argument(
            help="The blueprint of that smoke test.",
            show_default=False,
            autocompletion=completion.blueprints,
            envvar=completion.IN_ENVIRONMENT,
        ),
    ] = None
    inventory: Inventory = None
    as_json: AsJson = False


@verb(epilog="Examples: hpcforge explain POWER-003; hpcforge explain allreduce site.yaml")
def explain(options: ExplainOptions) -> int:
    """
    Print what the rule compares, and what to do when it is broken; for a smoke test, the limit of each of its numbers
    and how it follows from catalog and fabric. Contacts no node.
    """
    code = options.code
    if code is None or options.blueprint is None or _is_code(code):
        return _explain_code(code, options.as_json)
    return _explain_test(code, options.blueprint, options.inventory, options.as_json)


def _is_code(word: str) -> bool:
    """Tell codes such as POWER-003 or node-names from smoke tests, whose names have no hyphen."""
    from hpcforge.cluster import check_table

    return word.upper() in _rules() or word.lower() in check_table.table()


def _rules() -> dict[str, DesignRule]:
    from hpcforge.design.site import RULES
    from hpcforge.software.rules import rules as software_rules

    return {**RULES, **software_rules()}


def _explain_code(code: str | None, as_json: bool) -> int:
    from hpcforge.cluster import check_table
    from hpcforge.design.facility.rules import explained

    all_rules, all_checks = _rules(), check_table.table()
    if code is None:
        rules, checks = list(all_rules.values()), list(all_checks.values())
    elif _is_code(code):
        rules = [all_rules[code.upper()]] if code.upper() in all_rules else []
        checks = [all_checks[code.lower()]] if code.lower() in all_checks else []
    else:
        raise UsageError(f"unknown rule {one_line(code)}", _hint(code, all_rules, all_checks))
    if as_json:
        entries = {"rules": [vars(rule) for rule in rules], "checks": [_entry(check) for check in checks]}
        printing.result(json.dumps({"schema_version": 1, **entries}, indent=2) + "\n")
    elif code is None:
        printing.result("\n".join([*map(explained, rules), _listed(checks)]))
    else:
        printing.result("".join([*map(explained, rules), *map(_explained_check, checks)]))
    return Exit.DONE


def _entry(check: InputCheck[...]) -> dict[str, str]:
    from hpcforge.cluster import check_table

    return {"code": check.code, "title": check.title, "file": check_table.file_of(check), "reads": check.reads}


def _explained_check(check: InputCheck[...]) -> str:
    """Return what `hpcforge explain CODE` prints of a check."""
    from hpcforge.cluster import check_table

    return f"{check.code} (check of the {check_table.file_of(check)}): {check.title}\n\nReads: {check.reads}\n"


def _listed(checks: Sequence[InputCheck[...]]) -> str:
    """Return a line for each check."""
    width = max(len(check.code) for check in checks)
    lines = (f"  {check.code:<{width}}  {check.title}\n" for check in checks)
    return f"Checks of a blueprint, its inventory and the files that they name\n\n{''.join(lines)}"


def _hint(code: str, rules: Collection[str], checks: Collection[str]) -> str:
    """Return the nearest codes and shipped smoke tests."""
    from hpcforge import bundled

    tests = sorted(path.parent.name for path in bundled.smoke_tests().glob("*/test.yaml"))
    if code in tests:
        return f"it is a smoke test; add the blueprint that has it: hpcforge explain {code} BLUEPRINT"
    word = code.upper().rstrip("0123456789")
    number = code[len(word) :]
    families = {rule.rpartition("-")[0] for rule in rules}
    same = [f"{family}-{number:0>3}" for family in get_close_matches(word.rstrip("-_ "), families)]
    near = [rule for rule in same if rule in rules] or get_close_matches(code.upper(), [*rules])
    names = [*near, *get_close_matches(code.lower(), [*checks]), *get_close_matches(code.lower(), tests)]
    return f"nearest: {', '.join(names)}" if names else "codes: hpcforge explain; a smoke test: add its blueprint"


def _explain_test(name: str, blueprint: Path, inventory: Path | None, as_json: bool) -> int:
    from hpcforge.cli.node_selection import tests_named
    from hpcforge.cluster import load
    from hpcforge.report.show_text import lines_json, lines_text
    from hpcforge.run.expectations import Expectations

    loaded = load(blueprint, inventory)
    cluster = loaded.cluster
    expected = Expectations(cluster, loaded.fabrics, loaded.catalog.gpus)
    lines = [(test, expected.derived(test, test.nodes)) for test in tests_named(cluster, [name])]
    printing.result(json.dumps(lines_json(lines), indent=2) + "\n" if as_json else lines_text(lines))
    return Exit.DONE
