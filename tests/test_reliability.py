"""docs/reliability.md names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/\S+?\.py)::(\w+)`", (ROOT / "docs" / "reliability.md").read_text())
    assert len(named) > 30
    missing = [f"{path}::{name}" for path, name in named if f"def {name}(" not in (ROOT / path).read_text()]
    assert missing == []
