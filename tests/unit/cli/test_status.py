"""`hpcforge status --watch`: refused where nobody can watch."""

from __future__ import annotations

import pytest

from hpcforge.cli import run
from tests.support.in_process import hpcforge

BLUEPRINT = "blueprints/air-cooled-16.yaml"


def test_without_a_terminal_there_is_nothing_to_watch() -> None:
    done = hpcforge("status", BLUEPRINT, "--watch")
    assert done.returncode == 3
    assert "--watch needs a terminal" in done.stderr
    assert f"status {BLUEPRINT} --json" in done.stderr


@pytest.mark.parametrize("option", [["--json"], ["--history"], ["--html", "page.html"]])
def test_a_watch_goes_with_no_other_form(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", BLUEPRINT, "--watch", *option]) == 3
    assert "remove --history, --html and --json" in capsys.readouterr().err
