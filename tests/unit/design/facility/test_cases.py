"""Every file in cases/ breaks the rule that it is named after and no other; what is said of it is in NAME.expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import render_all
from hpcforge.cluster import load
from hpcforge.design.facility.rules import RULES

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_rules_say(path: Path, golden: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    loaded = load(Path(path.name), judged=False)
    codes = {remark.code for remark in loaded.remarks}
    assert codes == ({path.stem.partition("_")[0]} if path.stem[0].isupper() else set())
    golden(path.with_suffix(".expected"), render_all((*loaded.diagnostics, *loaded.not_checked)) or "nothing\n")


def test_every_rule_has_its_case() -> None:
    assert sorted(RULES) == sorted({path.stem.partition("_")[0] for path in CASES if path.stem[0].isupper()})
