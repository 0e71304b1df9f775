"""The table of rules of file systems, as text."""

from __future__ import annotations

import json
from pathlib import Path

from hpcforge.design.storage.rules import markdown
from tests.support.in_process import hpcforge
from tests.unit.design.storage.test_rule_checks import CASES, altered

ROOT = Path(__file__).parents[4]


def test_what_breaks_a_rule_is_refused_and_explained(tmp_path: Path) -> None:
    path = altered(tmp_path, CASES["STORAGE-001"])
    result = hpcforge("validate", str(path))
    assert (result.returncode, "error: STORAGE-001: stor01 holds less" in result.stderr) == (3, True)
    shown = hpcforge("design", str(path), "--json")
    assert (shown.returncode, len(json.loads(shown.stdout)["storage"])) == (3, 2)
    assert "STORAGE-001 (error): a server has the required capacity" in hpcforge("explain", "storage-001").stdout


def test_the_document_lists_every_rule_and_shows_what_is_said() -> None:
    text = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")
    start, end = "<!-- rules: from hpcforge/design/storage/rules.py -->\n", "<!-- end of rules -->"
    assert text[text.index(start) + len(start) : text.index(end)] == markdown()
    result = hpcforge("design", "tests/unit/design/storage/site.yaml").stdout
    assert text[text.index("Storage\n") : text.index("...\n```")] in result
