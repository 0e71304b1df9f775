"""What nodes logged: spans of time as they are written."""

from __future__ import annotations

import pytest

from hpcforge.errors import UsageError
from hpcforge.run.logs import seconds


@pytest.mark.parametrize(("text", "value"), [("90s", 90), ("15min", 900), ("2h", 7200), ("7d", 604800)])
def test_a_span_in_seconds(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "0s", "1", "1.5h", "-1h", "1 h", "100000s", "1w", "1h\n"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        seconds(text)
