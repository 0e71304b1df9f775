"""`hpcforge validate` as a hook of pre-commit: what the repository offers runs, and stops a commit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge import bundled
from hpcforge.cli import run

ROOT = bundled.root()


def hook() -> dict[str, Any]:
    [found] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    return dict(found)


def test_the_hook_is_a_command_of_hpcforge() -> None:
    """Of the fields that pre-commit requires, and the files that it is for."""
    assert {"id", "name", "entry", "language"} <= hook().keys()
    program, *words = shlex.split(hook()["entry"])
    assert (program, words) == ("hpcforge", ["validate"])
    assert hook()["pass_filenames"] is False  # an inventory that changes is not a blueprint
    assert "hpcforge = " in (ROOT / "pyproject.toml").read_text("utf-8").partition("[project.scripts]")[2]


def test_the_hook_stops_a_commit_only_for_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(hook()["entry"])[1:]
    text = "".join(
        line
        for line in (ROOT / "blueprints" / "rehearsal.yaml").read_text("utf-8").splitlines(keepends=True)
        if "site_roles" not in line
    )
    (tmp_path / "site.yaml").write_text(text)
    assert run([*words, str(tmp_path / "site.yaml")]) == 0
    (tmp_path / "site.yaml").write_text(text.replace("functions: [worker]", "functions: [workr]"))
    assert run([*words, str(tmp_path / "site.yaml")]) == 3
    assert "workr" in capsys.readouterr().err
