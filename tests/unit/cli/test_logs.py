"""`hpcforge logs` before it contacts a node: who keeps no logs, and what is no time."""

from __future__ import annotations

import pytest

from hpcforge import bundled
from hpcforge.cli import run

SITE = str(bundled.root() / "blueprints" / "air-cooled-16.yaml")


def test_a_site_without_a_log_server_is_told_what_to_add(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", SITE]) == 1
    assert "services: {syslog: {on: head}}" in capsys.readouterr().err


def test_a_time_is_a_number_and_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", SITE, "--since", "yesterday"]) == 3
    assert "--since yesterday: not a time" in capsys.readouterr().err


def test_a_node_has_to_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", SITE, "nobody99"]) == 3
    assert "nobody99" in capsys.readouterr().err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "--help"]) == 0
    assert "Example: hpcforge logs" in capsys.readouterr().out


def test_a_number_of_lines_has_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "x.yaml", "--last", "0"]) == 3
    assert "--last" in capsys.readouterr().err
