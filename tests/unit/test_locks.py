"""Locks between processes: who waits, who is refused, and that a dead holder holds nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hpcforge.locks import HeldError, file_lock, folder_lock, held, operator

HOLDER = """
import sys
from pathlib import Path
from hpcforge.locks import held
with held(Path(sys.argv[1]), "", "", shared=len(sys.argv) > 2):
    print("holds", flush=True)
    input()
"""


@contextmanager
def holder(path: Path, *shared: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", HOLDER, str(path), *shared]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "holds\n"
        yield process
        process.kill()


def test_the_holder_is_named_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as other:
        with pytest.raises(HeldError) as refused, held(path, "nodes are served", "wait"):
            pass
        words = f"nodes are served by {operator()}, process {other.pid}, since "
        assert str(refused.value).startswith(words) and (refused.value.hint, refused.value.kind) == ("wait", "busy")
        other.kill()
        other.wait()
        with held(path, "", ""):
            pass


def test_of_several_who_share_only_the_living_are_named(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path, "shared") as first, holder(path, "shared") as second, held(path, "", "", shared=True):
        first.kill()
        first.wait()
        with pytest.raises(HeldError) as refused, held(path, "", ""):
            pass
        message = str(refused.value)
        assert f"process {second.pid}" in message and f"process {os.getpid()}" in message
        assert f"process {first.pid}" not in message


def test_what_is_in_a_lock_file_by_mistake_is_no_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b'{"pid": 1, "started": 7}\n[]\n\xff{"pid": "x"}\n{"pid": 99999999, "started": null}\n')
        file.flush()
        with pytest.raises(HeldError, match="served by another process"), held(path, "served", ""):
            pass


def test_who_waits_is_told_once_and_a_removed_file_is_locked_again(tmp_path: Path) -> None:
    path, waits, has = tmp_path / "lock", threading.Event(), threading.Event()

    def wait() -> None:
        with file_lock(path, waits.set):
            has.set()

    with file_lock(path, lambda: pytest.fail("nothing to wait for")):
        waiter = threading.Thread(target=wait)
        waiter.start()
        assert waits.wait(30) and not has.is_set()
        path.unlink()
    assert has.wait(30) and path.exists()
    waiter.join()


def count(folder: Path, other: Path) -> None:
    for _ in range(50):
        with folder_lock(other, folder):
            (folder / "count").write_text(str(int((folder / "count").read_text()) + 1))


def test_changes_in_folders_take_turns_whatever_their_order(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "a" / "count").write_text("0")
    (tmp_path / "c").mkdir()
    orders = [("a", "c"), ("c", "b")]
    threads = [
        threading.Thread(target=count, args=(tmp_path / "a", tmp_path / other)) for order in orders for other in order
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "a" / "count").read_text() == "200"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["count"]


def test_a_folder_that_cannot_be_locked_has_a_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS locks only what is open for writing, which a folder never is."""
    flock = fcntl.flock

    def as_on_nfs(file: Any, how: int) -> None:
        if isinstance(file, int) and os.path.isdir(f"/proc/self/fd/{file}"):  # noqa: PTH112
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", as_on_nfs)
    with folder_lock(tmp_path), (tmp_path / ".hpcforge.lock").open() as file, pytest.raises(BlockingIOError):
        flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
