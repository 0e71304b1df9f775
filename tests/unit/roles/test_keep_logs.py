"""The log server's folder stays within its limit, at the cost of the node that has most."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from hpcforge import bundled

PROGRAM = bundled.root() / "roles" / "syslog_server" / "keep_logs.py"
BLOCK = 4096


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("keep_logs", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "GIB", BLOCK)
    return module


def _write(folder: Path, name: str, blocks: int) -> None:
    (folder / name).write_bytes(os.urandom(blocks * BLOCK))


def _flood(folder: Path) -> None:
    for age in range(1, 101):
        _write(folder, f"w03.log.{age}{'.gz' if age > 1 else ''}", 2)
    for node in ("w03", "w04", "w05"):
        _write(folder, f"{node}.log", 3)
    for age in (1, 2):
        _write(folder, f"w04.log.{age}", 5)


def test_a_node_that_floods_loses_its_own_oldest_logs(program: ModuleType, tmp_path: Path) -> None:
    _flood(tmp_path)
    program.main("/nonexistent", str(tmp_path), "60")
    names = {path.name for path in tmp_path.iterdir()}
    assert {"w04.log", "w04.log.1", "w04.log.2", "w05.log", "w03.log", "w03.log.1", "w03.log.2.gz"} <= names
    assert "w03.log.100.gz" not in names
    assert sum(log.size for log in program.logs(str(tmp_path))) == 59 * BLOCK
    ages = sorted(log.age for log in program.logs(str(tmp_path)) if log.node == "w03")
    assert ages == [*range(len(ages))]


def test_present_files_and_files_of_others_stay(program: ModuleType, tmp_path: Path) -> None:
    _flood(tmp_path)
    _write(tmp_path, "notes.1", 50)
    (tmp_path / "w05.log.1").symlink_to(tmp_path / "notes.1")
    program.main("/nonexistent", str(tmp_path), "0")
    assert {path.name for path in tmp_path.iterdir()} == {"w03.log", "w04.log", "w05.log", "w05.log.1", "notes.1"}


def test_a_folder_within_its_limit_is_left(program: ModuleType, tmp_path: Path) -> None:
    _flood(tmp_path)
    program.main("/nonexistent", str(tmp_path), "300")
    assert len([*tmp_path.iterdir()]) == 105


def test_a_quarter_of_the_file_system_is_the_most(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = list(os.statvfs(tmp_path))
    disk[1], disk[2] = BLOCK, 240  # f_frsize, f_blocks
    monkeypatch.setattr(program.os, "statvfs", lambda _: os.statvfs_result(disk))
    _flood(tmp_path)
    program.main("/nonexistent", str(tmp_path), "300")
    assert sum(log.size for log in program.logs(str(tmp_path))) == 59 * BLOCK
