"""Processes that hold secrets leave no core, however they end. Each test first sees that a core would be left here."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FORBIDDEN = (
    "import ctypes; from hpcforge import process; process.forbid_core_dumps(); print(ctypes.CDLL(None).prctl(3))"
)


def _allow_cores() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _leaves_core(
    folder: Path, *arguments: str, ready: Callable[[int], None], environment: dict[str, str] | None = None
) -> bool:
    """Whether Python with these arguments leaves a core if it is aborted once it is ready."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        preexec_fn=_allow_cores,  # noqa: PLW1509 - one thread
    ) as process:
        try:
            ready(process.pid)
            process.send_signal(signal.SIGABRT)
            assert process.wait(60) == -signal.SIGABRT
        finally:
            process.kill()
    cores = list(folder.glob("core*"))
    for core in cores:
        core.unlink()
    return bool(cores)


def _reader_of(fifo: Path) -> Callable[[int], None]:
    """Ready: it has opened this file to read it."""

    def ready(_: int) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:  # nobody reads it yet
                assert time.monotonic() < until
                time.sleep(0.02)
            else:
                return

    return ready


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a process without this care leaves its core; skips where this machine's kernel has it elsewhere."""
    fifo = tmp_path / "plain"
    os.mkfifo(fifo)
    code = f"import time; open({str(fifo)!r}); time.sleep(60)"
    if not _leaves_core(tmp_path, "-c", code, ready=_reader_of(fifo)):
        pytest.skip("this machine's kernel.core_pattern leaves no core in the folder of the process")
    return tmp_path


def test_a_command_that_reads_secrets_leaves_no_core(folder: Path) -> None:
    shutil.copytree(REPOSITORY / "blueprints", folder / "site", ignore=shutil.ignore_patterns("*.age"))

    def ready(pid: int) -> None:
        """It waits for the secret, on its standard input."""
        until = time.monotonic() + 60
        while not Path(f"/proc/{pid}/wchan").read_text().endswith("pipe_read"):
            assert time.monotonic() < until
            time.sleep(0.02)

    words = ("-m", "hpcforge", "secrets", "set", str(folder / "site" / "rehearsal.yaml"), "munge_key")
    assert not _leaves_core(folder, *words, ready=ready)


def test_the_child_with_the_connections_leaves_no_core(folder: Path) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    def ready(pid: int) -> None:
        """It has set the limits that it works with."""
        until = time.monotonic() + 60
        while resource.prlimit(pid, resource.RLIMIT_NOFILE) != (most, most):
            assert time.monotonic() < until
            time.sleep(0.02)

    assert not _leaves_core(folder, "-P", "-m", "hpcforge.engines.child", ready=ready)


def test_no_other_process_of_the_user_may_read_its_memory() -> None:
    done = subprocess.run([sys.executable, "-c", FORBIDDEN], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
