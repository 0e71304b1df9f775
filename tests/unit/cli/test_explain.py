"""`hpcforge explain` of what is no rule names the nearest."""

from __future__ import annotations

import pytest

from hpcforge.cli import run
from hpcforge.cli.exit_codes import Exit


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("POWR-01", "nearest: POWER-001"),
        ("cool5", "nearest: COOL-005"),
        ("POWER-999", "nearest: POWER-"),
        ("allreduc", "nearest: allreduce, mpi_allreduce"),
        ("allreduce", "it is a smoke test; add the blueprint that has it: hpcforge explain allreduce BLUEPRINT"),
        ("a\nb\u202e-1", "codes: hpcforge explain"),
    ],
)
def test_the_nearest_names_are_shown(
    word: str, hint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HPCFORGE_BLUEPRINT", raising=False)
    assert run(["explain", word]) == Exit.INVALID
    error = capsys.readouterr().err
    assert hint in error
    assert error.count("\n") == 2
