"""The options of `hpcforge logs`."""

from __future__ import annotations

import pytest

from hpcforge.cli import run


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "--help"]) == 0
    assert "Example: hpcforge logs" in capsys.readouterr().out


def test_a_number_of_lines_has_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "x.yaml", "--last", "0"]) == 3
    assert "--last" in capsys.readouterr().err
