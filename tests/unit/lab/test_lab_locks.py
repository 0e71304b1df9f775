from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hpcforge.host import paths as host_paths
from hpcforge.lab.names import forget_lab_lock, lab_lock


@pytest.fixture(autouse=True)
def run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_paths, "RUN", tmp_path)


def test_one_at_a_time_even_if_the_lock_file_goes() -> None:
    inside: list[int] = []
    most = 0

    def work() -> None:
        nonlocal most
        for _ in range(20):
            with lab_lock("a", lambda _: None):
                inside.append(1)
                most = max(most, len(inside))
                inside.pop()
                forget_lab_lock("a")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert most == 1
    assert not any(thread.is_alive() for thread in threads)


def test_who_waits_says_so() -> None:
    said: list[str] = []

    def wait() -> None:
        with lab_lock("a", said.append):
            said.append("in")

    with lab_lock("a", said.append):
        thread = threading.Thread(target=wait)
        thread.start()
        while not said:
            thread.join(timeout=0.01)
        assert said == ["waiting: another run is active on lab a"]
    thread.join(timeout=10)
    assert said[-1] == "in"
