"""`make check` reads shipped and written files as other tools do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.check_schemas import ROOT, check


@pytest.mark.parametrize(("serial", "right"), [("S4711", True), ("4711", True), ("[4711]", False)])
def test_a_file_is_compared_with_its_schema(tmp_path: Path, serial: str, right: bool) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(f"schema: 1\nnodes: {{w01: {{serial: {serial}}}}}\n", encoding="utf-8")
    assert check(["--schemafile", ROOT / "inventory" / "inventory.schema.json", file]) is right


@pytest.mark.parametrize(("pattern", "right"), [("^a$", True), (r"^a\\Z", False), ("(?i)a", False)])
def test_a_pattern_that_ecma_262_does_not_have_is_refused(tmp_path: Path, pattern: str, right: bool) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(
        f'{{"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": "{pattern}"}}', encoding="utf-8"
    )
    assert check(["--check-metaschema", schema]) is right
