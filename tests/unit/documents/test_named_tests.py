"""Documents that name tests name such as exist, and say which of them are on demand."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ON_DEMAND

ROOT = Path(__file__).parents[3]
_TESTS = re.compile(r"`(tests/\S+?\.py)?::(\w+)(?:\[([^]`]+)\])?`")  # without a file: of the one before
_LEFT_OUT = re.compile(rf"pytest\.mark\.({'|'.join(ON_DEMAND).replace('-', '_')})\b")


def test_every_test_that_is_named_exists() -> None:
    _every_test_exists("reliability.md", at_least=30)


def test_every_test_of_a_trap_exists() -> None:
    _every_test_exists("software.md", at_least=15)


def test_every_test_of_operations_exists() -> None:
    _every_test_exists("operations.md", at_least=10)


def test_every_test_of_an_exception_from_hardening_exists() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`(test_\w+)`", text.partition("(`tests/unit/roles/test_hardening.py`)")[2])
    tests = (ROOT / "tests" / "unit" / "roles" / "test_hardening.py").read_text()
    assert len(named) >= 5
    assert [one for one in named if f"def {one}(" not in tests] == []


def test_every_row_of_what_can_go_wrong_names_a_test() -> None:
    for line, row in _rows("reliability.md"):
        assert list(_named(row)), f"line {line}: {row}"


@pytest.mark.parametrize("document", ["reliability.md", "software.md", "operations.md"])
def test_a_row_says_that_its_test_is_on_demand(document: str) -> None:
    for line, row in _rows(document):
        left_out = {path for path, *_ in _named(row) if _LEFT_OUT.search((ROOT / path).read_text())}
        assert ("on demand" in row or "°" in row) == bool(left_out), f"line {line}, {sorted(left_out)}: {row}"


def _rows(document: str) -> Iterator[tuple[int, str]]:
    """Rows of tables whose last column names tests, with their lines."""
    has_tests = False
    for line, row in enumerate((ROOT / "docs" / document).read_text().splitlines(), start=1):
        header = row.endswith(("| shown by |", "| shown by, or why not |"))
        has_tests = header or (has_tests and row.startswith("|"))
        if has_tests and not header and not row.startswith("|---"):
            yield line, row


def _named(text: str) -> Iterator[tuple[str, str, str]]:
    """Tests as `FILE.py::NAME`, or with a case, as pytest writes it."""
    path = ""
    for file, name, case in _TESTS.findall(text):
        path = file or path
        assert path, f"{name} of which file?"
        yield path, name, case


def _every_test_exists(document: str, at_least: int) -> None:
    """The file has a function of that name, and the text of the case."""
    named = list(_named((ROOT / "docs" / document).read_text()))
    assert len(named) >= at_least
    texts = {path: (ROOT / path).read_text() for path, *_ in named}
    missing = [one for one in named if f"def {one[1]}(" not in texts[one[0]] or one[2] not in texts[one[0]]]
    assert missing == []
