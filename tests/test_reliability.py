"""Documents that name tests name such as exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_test_that_is_named_exists() -> None:
    _every_test_exists("reliability.md", at_least=30)


def test_every_test_of_a_trap_exists() -> None:
    _every_test_exists("software.md", at_least=15)


def test_every_test_of_what_is_asked_for_exists() -> None:
    _every_test_exists("operations.md", at_least=15)


def _every_test_exists(document: str, at_least: int) -> None:
    """`tests/FILE.py::NAME`, or with a case, as pytest writes it: of that the file has to have the text."""
    named = re.findall(r"`(tests/\S+?\.py)::(\w+)(?:\[([^]`]+)\])?`", (ROOT / "docs" / document).read_text())
    assert len(named) >= at_least
    texts = {path: (ROOT / path).read_text() for path, *_ in named}
    missing = [one for one in named if f"def {one[1]}(" not in texts[one[0]] or one[2] not in texts[one[0]]]
    assert missing == []
