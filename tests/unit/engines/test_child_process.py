"""The child process that is begun before hpcforge has imported its own modules."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcforge.engines import Engines, child_process
from hpcforge.engines.tasks import Command, EngineError, Target


def test_one_that_was_begun_is_taken_once() -> None:
    child_process.begin()
    first = child_process.take()
    second = child_process.take()
    try:
        assert first is not second
        assert first.popen.poll() is None
    finally:
        for one in (first, second):
            assert one.popen.stdout is not None
            one.close(time.monotonic() + 20)
            one.popen.stdout.close()
            assert one.popen.returncode == 0


def test_it_may_open_as_many_connections_as_this_host_lets_it() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    one = child_process.ChildProcess()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    until = time.monotonic() + 20
    while resource.prlimit(one.popen.pid, resource.RLIMIT_NOFILE) != (hard, hard):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert one.popen.stdout is not None
    one.close(time.monotonic() + 20)
    one.popen.stdout.close()


def test_last_words() -> None:
    one = child_process.take()
    assert one.popen.stdin is not None
    assert one.popen.stdout is not None
    one.popen.stdin.write(b"no json\n")
    one.popen.stdin.flush()
    assert one.popen.wait(20) == 1
    assert "JSONDecodeError" in one.last_words()
    one.close(time.monotonic())
    one.popen.stdout.close()


def test_one_that_cannot_live_is_told(tmp_path: Path) -> None:
    child_process.begin()
    begun = child_process._begun[0]
    begun.popen.kill()
    begun.popen.wait()
    with pytest.raises(EngineError, match=r"process ended \(without output\)"):
        Engines([], tmp_path / "work", tmp_path).__enter__()
    begun.close(0)
    assert begun.popen.stdout is not None
    begun.popen.stdout.close()


def test_one_that_nobody_needs_ends_with_the_command(tmp_path: Path) -> None:
    mark = f"HPCFORGE_TEST_MARK={tmp_path.name}-{os.getpid()}"
    name, _, value = mark.partition("=")
    argv = [sys.executable, "-m", "hpcforge", "plan", str(tmp_path / "none.yaml")]
    done = subprocess.run(argv, env={**os.environ, name: value}, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    left = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in environment:
            left.append(folder.name)
    assert left == []


def test_what_is_asked_of_one_that_is_just_going_fails_too(tmp_path: Path) -> None:
    """Its standard input may still take what is written, though nobody will read it: here it surely does."""
    node = Target("n1", "127.0.0.1", "ops", "sudo", None, ())
    with Engines([node], tmp_path / "work", tmp_path) as engines:
        assert engines._process is not None
        child = engines._process.popen
        kept = os.open(f"/proc/{child.pid}/fd/0", os.O_RDONLY)
        try:
            child.kill()
            engines._reader.join(30)
            engines.start(Command("later", "n1", ("true",)))
            event = engines.next(5.0)
        finally:
            os.close(kept)
    assert event is not None
    assert (event.task, event.data["ok"]) == ("later", False)
    assert "the engine's process ended" in event.data["error"]


@pytest.mark.parametrize(
    "program",
    [
        "import hpcforge.engines.child",
        "import sys; sys.argv[1:] = ['schema', 'blueprint']; from hpcforge.__main__ import main; main()",
    ],
)
def test_no_plugins_of_other_distributions_are_searched(program: str) -> None:
    """gevent and pydantic would run them."""
    program = f"import importlib.metadata as records; records.entry_points = None; {program}"
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
