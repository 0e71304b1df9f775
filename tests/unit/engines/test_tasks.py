"""Tasks for a node, and their results."""

from __future__ import annotations

from typing import Any

import pytest

from hpcforge.engines.tasks import command_failure, result


def test_a_reason_makes_a_node_unreachable() -> None:
    assert result(reason="link")["unreachable"] is True
    assert result(ok=True)["unreachable"] is False


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (result(rc=1, stderr="no such node\n", stdout="ignored", error="exit status 1"), "`scontrol`: exit status 1"),
        (
            result(rc=1, stdout="a\nNode w04 not found\n", error="exit status 1"),
            "`scontrol`: exit status 1: Node w04 not found",
        ),
        (result(rc=1, error="exit status 1"), "`scontrol`: exit status 1"),
    ],
)
def test_a_failed_command_without_errors_is_told_by_its_last_line(output: dict[str, Any], line: str) -> None:
    assert command_failure("scontrol", output) == line
