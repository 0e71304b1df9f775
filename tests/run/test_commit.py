"""What git says of a blueprint, in real repositories."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.run.commit import commit_of, descends

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    def run(*words: str) -> str:
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main"]
        argv = ["git", *who, "-C", str(tmp_path), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    run("init", "-q")
    return run


def committed(git: Git, blueprint: Path, text: str) -> str:
    blueprint.write_text(text)
    git("add", "-A")
    git("commit", "-qm", text)
    return git("rev-parse", "HEAD")


def test_clean_changed_and_not_added(git: Git, tmp_path: Path) -> None:
    blueprint, inventory = tmp_path / "site.yaml", tmp_path / "inventory.yaml"
    assert commit_of(blueprint) is None  # no commit yet
    first = committed(git, blueprint, "one")
    found = commit_of(blueprint)
    assert found is not None
    assert (found.id, found.dirty) == (first, False)
    (tmp_path / "notes").write_text("not asked about")
    assert commit_of(blueprint) == found
    inventory.write_text("new")
    found = commit_of(blueprint, inventory)
    assert found is not None
    assert found.dirty
    (tmp_path / ".gitignore").write_text("inventory.yaml\n")  # ignored is not in the commit either
    found = commit_of(blueprint, inventory)
    assert found is not None
    assert found.dirty
    blueprint.write_text("two")
    found = commit_of(blueprint)
    assert found is not None
    assert (found.id, found.dirty) == (first, True)


def test_descent(git: Git, tmp_path: Path) -> None:
    blueprint = tmp_path / "site.yaml"
    first = committed(git, blueprint, "one")
    second = committed(git, blueprint, "two")
    assert descends(blueprint, first) is True
    assert descends(blueprint, second) is True
    git("checkout", "-q", first)
    assert descends(blueprint, second) is False
    assert descends(blueprint, "0" * 40) is None
    assert descends(blueprint, "--upload-pack=touch x") is None


def test_without_a_repository_or_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert commit_of(folder / "site.yaml") is None
    assert descends(folder / "site.yaml", "0" * 40) is None
    monkeypatch.setenv("PATH", str(folder))
    assert commit_of(folder / "site.yaml") is None


def test_a_repository_s_own_settings_run_nothing(git: Git, tmp_path: Path) -> None:
    blueprint = tmp_path / "site.yaml"
    committed(git, blueprint, "one")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    git("config", "core.fsmonitor", str(program))
    assert commit_of(blueprint) is not None
    assert not (tmp_path / "ran").exists()
    subprocess.run(["git", "-C", str(tmp_path), "status"], check=True, capture_output=True)
    assert (tmp_path / "ran").exists()  # which shows that it would have run
