"""Every file in cable_cases/ breaks the rule about cables that it is named after, and no other of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import render_all
from hpcforge.cluster import load
from hpcforge.design.fabric.rules import RULES

CASES = sorted((Path(__file__).parent / "cable_cases").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_rules_say(path: Path, golden: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    loaded = load(Path(path.name), judged=False)
    said = [entry for entry in (*loaded.diagnostics, *loaded.not_checked) if "CABLE-" in entry.message]
    assert {entry.message.partition(":")[0] for entry in said} == {path.stem.partition("_")[0]} - {"valid"}
    golden(path.with_suffix(".expected"), render_all(said) or "nothing\n")


def test_every_rule_has_its_case() -> None:
    named = {path.stem.partition("_")[0] for path in CASES if not path.stem.startswith("valid")}
    assert sorted(code for code in RULES if code.startswith("CABLE-")) == sorted(named)
