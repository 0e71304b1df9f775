"""What makes folders and subordinate numbers for users of containers, in folders of a test."""

from __future__ import annotations

import importlib.util
import os
import stat
from pathlib import Path
from types import ModuleType

import pytest

from hpcforge import bundled

PROGRAM = bundled.root() / "roles" / "container_users" / "users.py"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, whose files are in the test's folder."""
    spec = importlib.util.spec_from_file_location("users", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "containers.json").write_text(f'{{"store": "{tmp_path}/store", "first_number": 100000}}')
    for name, file in {"CONFIGURATION": "containers.json", "RUNTIME": "run", "LOCK": "lock"}.items():
        monkeypatch.setattr(module, name, str(tmp_path / file))
    monkeypatch.setattr(module, "FILES", (str(tmp_path / "subuid"), str(tmp_path / "subgid")))
    return module


def begins(program: ModuleType, monkeypatch: pytest.MonkeyPatch, context: str = "prolog_slurmd", **told: str) -> int:
    for name in ("SLURM_JOB_UID", "SLURM_JOB_GID", "SLURM_JOB_USER"):
        monkeypatch.delenv(name, raising=False)
    for name, text in {"SLURM_SCRIPT_CONTEXT": context, **told}.items():
        monkeypatch.setenv(name, text)
    return int(program.main())


def test_a_range_follows_those_of_others(program: ModuleType) -> None:
    assert program.with_range("", 5001, "dora", 100_000) == "5001:100000:65536\n"
    there = "ops:100000:65536\nbob:231072:65536\nada:165536:65536"
    assert program.with_range(there, 5001, "dora", 100_000) == f"{there}\n5001:296608:65536\n"
    assert program.with_range("low:1:10\nwrong\nworse:x:65536\n", 7, "x", 100_000).endswith("7:100000:65536\n")


@pytest.mark.parametrize("line", ["dora:100000:65536", "5001:100000:65536"])
def test_a_range_that_is_there_stays(program: ModuleType, line: str) -> None:
    assert program.with_range(f"{line}\n", 5001, "dora", 100_000) is None


def test_too_small_a_range_is_none(program: ModuleType) -> None:
    assert program.with_range("dora:100000:10\n", 5001, "dora", 100_000).endswith("5001:100010:65536\n")


def test_no_number_is_given_twice(program: ModuleType) -> None:
    with pytest.raises(ValueError, match="no 65536 numbers are free below 600100000"):
        program.with_range("ada:600000000:65536\n", 5001, "dora", 100_000)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to users")
def test_a_job_finds_its_folders(program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = {"SLURM_JOB_UID": "5001", "SLURM_JOB_GID": "6001", "SLURM_JOB_USER": "dora"}
    for _ in range(2):
        assert begins(program, monkeypatch, **told) == 0
        for parent in ("run", "store"):
            seen = (tmp_path / parent / "5001").stat()
            assert (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)) == (5001, 6001, 0o700)
        assert (tmp_path / "run" / "dora").readlink() == Path("5001")
        assert (tmp_path / "subuid").read_text() == (tmp_path / "subgid").read_text() == "5001:100000:65536\n"


def test_only_a_prolog_of_a_user_makes_anything(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert begins(program, monkeypatch, "epilog_slurmd", SLURM_JOB_UID="5001") == 0
    assert begins(program, monkeypatch, SLURM_JOB_UID="0") == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["..", ".", "a/b", "12", ""])
def test_a_name_leads_nowhere_else(program: ModuleType, tmp_path: Path, name: str) -> None:
    (tmp_path / "run").mkdir()
    program.link_name(5001, name)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_job_begins_although_nothing_can_be_made(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "containers.json").unlink()
    assert begins(program, monkeypatch, SLURM_JOB_UID="5001") == 0
