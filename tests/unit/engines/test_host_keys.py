"""What a run keeps for itself, and what becomes of it when the run is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hpcforge.engines.host_keys import private_folder

_RUN = """
import sys, time
from hpcforge.engines.host_keys import private_folder
with private_folder() as folder:
    (folder / "inputs.yml").write_text("token: secret")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def begin() -> tuple[subprocess.Popen[str], Path]:
    run = subprocess.Popen([sys.executable, "-c", _RUN], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    return run, Path(run.stdout.readline().strip())


def test_what_a_killed_run_left_goes_with_the_next_and_what_is_in_use_stays() -> None:
    (killed, left), (alive, used) = begin(), begin()
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (left / "inputs.yml").exists()
        with private_folder() as folder:
            assert not left.exists()
            assert (used / "inputs.yml").read_text() == "token: secret"
            assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
        assert not folder.exists()
    finally:
        alive.kill()
        alive.wait()
        killed.stdout.close()
        alive.stdout.close()


def test_many_at_once_have_one_each() -> None:
    def use(number: int) -> bool:
        with private_folder() as folder:
            (folder / "mine").write_text(str(number))
            with private_folder() as other:
                return other != folder and (folder / "mine").read_text() == str(number)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(use, range(64)))


def test_a_place_that_somebody_else_can_use_is_refused(temporary: Path) -> None:
    place = temporary / f"hpcforge-{os.geteuid()}"
    place.symlink_to("/var")
    with pytest.raises(PermissionError, match="only you can use"), private_folder():
        pass
    place.unlink()
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    with pytest.raises(PermissionError, match="set TMPDIR"), private_folder():
        pass
