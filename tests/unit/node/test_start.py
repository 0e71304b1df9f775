"""The first code on a node."""

from __future__ import annotations

import importlib
import json
import marshal
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcforge.node import bundle, start

SOURCES = {"sent_package.inner.module": "VALUE = 7"}
DIGESTS = {"sent_package.inner.module": "a digest"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Root's folder for compiled modules; the imported ones go afterwards."""
    if os.geteuid() != 0:
        pytest.skip("only root keeps compiled modules")
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setattr(start, "FOLDER", str(tmp_path / "run"))
    monkeypatch.setattr(start, "_RECEIPT", str(tmp_path / "receipt.json"))
    (tmp_path / "receipt.json").write_text("{}")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield tmp_path / "run"
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.startswith("sent_package")]:
        del sys.modules[name]


def value(finder: start.BundleFinder) -> int:
    """Return the value of the module that this finder finds."""
    _forget()
    sys.meta_path.insert(0, finder)
    return importlib.import_module("sent_package.inner.module").VALUE


def keep() -> None:
    """Import the module, and keep what was compiled."""
    finder = start.BundleFinder(SOURCES, DIGESTS, {})
    assert value(finder) == 7
    finder.keep()


def test_a_python_that_is_too_old_says_so(capsys, monkeypatch):
    scope: dict[str, Any] = {"__name__": "hpcforge.node.start"}
    exec(bundle.sources()["hpcforge.node.start"], scope)
    monkeypatch.setitem(scope, "OLDEST", (4, 0))
    scope["start"]({"modules": {}, "request": {}})
    failed, done = map(json.loads, capsys.readouterr().out.splitlines())
    assert "and 4.0 is needed" in failed["error"]
    assert done["event"] == "done"


def test_modules_that_were_sent_are_found_with_the_packages_around_them() -> None:
    finder = start.BundleFinder(SOURCES, {}, {})
    sys.meta_path.insert(0, finder)
    try:
        assert importlib.import_module("sent_package.inner.module").VALUE == 7
        assert finder.find_spec("sent_package.other") is None
        assert [finder.find_spec(name) is None for name in ("sent_package", "sent_package.inner", "json")] == [
            False, False, True,
        ]  # fmt: skip
    finally:
        sys.meta_path.remove(finder)
        _forget()


def test_a_module_is_compiled_once(folder: Path) -> None:
    keep()
    [kept] = folder.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    finder = start.BundleFinder(
        {"sent_package.inner.module": "not Python, so it must not be compiled"}, DIGESTS, start.kept()
    )
    assert value(finder) == 7
    finder.keep()
    assert [path.stat().st_ino for path in folder.iterdir()] == [kept.stat().st_ino]  # nothing new, not written


def test_another_source_is_compiled(folder: Path) -> None:
    keep()
    for digests in ({"sent_package.inner.module": "another digest"}, {}):
        assert value(start.BundleFinder({"sent_package.inner.module": "VALUE = 8"}, digests, start.kept())) == 8


def test_modules_that_others_can_change_are_not_used(folder: Path) -> None:
    keep()
    [kept] = folder.iterdir()
    for path, mode in ((folder, 0o770), (folder, 0o702), (kept, 0o620), (kept, 0o602)):
        before = path.stat().st_mode
        path.chmod(mode)
        assert start.kept() == {}
        path.chmod(before)
    os.chown(kept, 1, 1)
    assert start.kept() == {}
    os.chown(kept, 0, 0)
    assert start.kept()
    kept.rename(folder / "elsewhere")
    kept.symlink_to("elsewhere")
    assert start.kept() == {}
    kept.unlink()
    os.mkfifo(kept)
    assert start.kept() == {}


@pytest.mark.parametrize("content", [b"", b"not bytecode", marshal.dumps(["no", "table"])])
def test_a_file_of_another_form_is_not_used(folder: Path, content: bytes) -> None:
    keep()
    [kept] = folder.iterdir()
    kept.write_bytes(content)
    assert start.kept() == {}
    keep()
    assert start.kept()


def test_a_damaged_file_is_not_used(folder: Path) -> None:
    keep()
    [kept] = folder.iterdir()
    content = kept.read_bytes()
    for place in range(len(content)):
        kept.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        assert start.kept() == {}
        kept.write_bytes(content[:place])
        assert start.kept() == {}


def test_nothing_is_kept_on_a_node_that_no_apply_has_changed(folder: Path) -> None:
    (folder.parent / "receipt.json").unlink()
    keep()
    assert list(folder.iterdir()) == []
    folder.rmdir()
    (folder.parent / "receipt.json").touch()
    keep()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_full_memory_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep()
    [kept] = folder.iterdir()
    before = kept.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    finder = start.BundleFinder({"sent_package.inner.module": "VALUE = 9"}, {"sent_package.inner.module": "new"}, {})
    assert value(finder) == 9
    finder.keep()
    assert [(path, path.read_bytes()) for path in folder.iterdir()] == [(kept, before)]
