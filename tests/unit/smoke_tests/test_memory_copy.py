"""The program memory_copy, run here as on a node."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.unit.verify.conftest import shipped_program

PROGRAM = Path(__file__).parents[3] / "smoke_tests" / "memory_copy" / "memory_copy.py"
QUICK = ("--size-mib", "8", "--seconds", "0.2")


@pytest.fixture(scope="module")
def program() -> ModuleType:
    """The program as a module: it stands in no package, here as on a node."""
    spec = importlib.util.spec_from_file_location("memory_copy", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *QUICK, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_it_measures_and_compares() -> None:
    ran = run("--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    measured, result = (json.loads(line) for line in ran.stdout.splitlines())
    assert (measured["event"], result["event"]) == ("measurement", "result")
    assert 0.05 < measured["copy_gb_per_s"] < 5000
    assert measured["threads"] >= 1


def test_a_copy_is_not_fast_because_the_waiting_thread_wakes_late(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where cores are busy, the thread that waits for the copy may wake after its parts have ended."""
    ended, taken = threading.Event(), []

    class LateBarrier(threading.Barrier):
        def wait(self, timeout: float | None = None) -> int:
            number = super().wait(timeout)
            if threading.current_thread() is threading.main_thread():
                ended.wait()
            return number

    def memmove(*arguments: int) -> None:
        start = time.perf_counter()
        ctypes.memmove(*arguments)
        taken.append(time.perf_counter() - start)
        ended.set()

    monkeypatch.setattr(program, "threading", SimpleNamespace(Thread=threading.Thread, Barrier=LateBarrier))
    monkeypatch.setattr(program, "ctypes", SimpleNamespace(**{**vars(ctypes), "memmove": memmove}))
    measured = program.Copy(64 * program.MIB, 1).seconds()
    assert measured >= taken[0]


def test_it_knows_the_options_that_a_blueprint_may_choose() -> None:
    told = [f"--{name.replace('_', '-')}={text}" for name, text in shipped_program("memory_copy").options]
    assert told == ["--size-mib=0", "--seconds=3.0"]
    assert run("--json", *told, *QUICK).returncode == 0


def test_for_people_it_is_text() -> None:
    assert "every byte arrived" in run().stdout


def test_a_byte_that_did_not_arrive_is_named() -> None:
    ran = run("--json", "--falsify")
    assert ran.returncode == 3
    (wrong,) = (json.loads(line) for line in ran.stdout.splitlines())
    assert (wrong["event"], wrong["where"]) == ("wrong", "byte 17 of the copy")
    assert wrong["expected"] != wrong["got"]


def test_parts_are_all_of_it_and_none_twice() -> None:
    code = "import json, memory_copy as m; print(json.dumps([m.parts(8 * m.MIB + 5, 3), m.parts(m.PAGE, 4)]))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=PROGRAM.parent, capture_output=True, text=True, check=True, timeout=60)
    for parts, size in zip(json.loads(done.stdout), (8 * 1024 * 1024 + 5, 4096), strict=True):
        assert (parts[0][0], parts[-1][1]) == (0, size)
        assert [end for _, end in parts[:-1]] == [begin for begin, _ in parts[1:]]


@pytest.mark.parametrize("threads", [1, 3])
def test_pages_that_arrive_in_each_others_place_are_named(program: ModuleType, threads: int) -> None:
    copy = program.Copy(8 * program.MIB, threads)
    copy.seconds()
    assert copy.wrong() is None
    one, other = (slice(first, first + program.PAGE) for first in (6 * program.MIB, 2 * program.MIB))
    copy.target[one], copy.target[other] = copy.target[other], copy.target[one]
    assert 0 <= copy.wrong() - other.start < 8  # two random bytes are equal once in 256 times


def test_all_of_the_source_is_random(program: ModuleType) -> None:
    copy = program.Copy(8 * program.MIB + 4096 + 5, 3)
    copy.seconds()
    pages = [bytes(copy.source[at : at + program.PAGE]) for at in range(0, copy.size, program.PAGE)]
    assert len(set(pages)) == len(pages)
    counts = [copy.source.count(byte) for byte in range(256)]
    assert min(counts) > 0.9 * copy.size / 256


def sysfs(folder: Path, caches: dict[int, list[tuple[int, str, str]]]) -> Path:
    """Caches by CPU: level, size, and the CPUs that share it."""
    for cpu, levels in caches.items():
        for index, texts in enumerate(levels):
            cache = folder / f"cpu{cpu}" / "cache" / f"index{index}"
            cache.mkdir(parents=True)
            for name, text in zip(("level", "size", "shared_cpu_list"), texts, strict=True):
                (cache / name).write_text(f"{text}\n")
    return folder


def test_last_level_caches_count_once_each(program: ModuleType, tmp_path: Path) -> None:
    two_sockets = {
        cpu: [(1, "48K", f"{cpu}"), (2, "2048K", f"{cpu}"), (3, "107520K", "0-1" if cpu < 2 else "2-3")]
        for cpu in range(4)
    }
    there = sysfs(tmp_path, two_sockets)
    assert program.last_level_caches([0, 1, 2, 3], there) == 2 * 105 * program.MIB
    assert program.last_level_caches([2], there) == 105 * program.MIB
    (tmp_path / "cpu2/cache/index2/size").write_text("unknown\n")
    assert program.last_level_caches([2], there) == 2 * program.MIB
    assert program.last_level_caches([7], there) == 0


def test_the_size_is_four_times_the_caches_as_far_as_there_is_memory(program: ModuleType) -> None:
    mib, gib = program.MIB, 1024 * program.MIB
    assert program.buffer_size(0, 32 * mib, 20 * gib) == 256 * mib
    assert program.buffer_size(0, 768 * mib, 20 * gib) == 3 * gib
    assert program.buffer_size(0, 768 * mib, 2 * gib) == gib
    assert program.buffer_size(512 * mib, 768 * mib, gib) == 512 * mib
    with pytest.raises(program.TooLargeError, match="two buffers of 513 MiB do not fit into the 1024 MiB"):
        program.buffer_size(513 * mib, 0, gib)
    free = "MemTotal: 99999999 kB\nMemAvailable:   8388608 kB\n"
    assert program.room({}, free) == 2 * gib
    assert program.room({"SLURM_MEM_PER_NODE": "2048"}, free) == 1536 * mib
    assert program.room({"SLURM_MEM_PER_NODE": "0"}, free) == 2 * gib


def test_buffers_that_do_not_fit_are_a_failure_in_words() -> None:
    ran = run("--json", "--size-mib", "65536000")
    assert (ran.returncode, ran.stderr) == (1, "")
    (failed,) = (json.loads(line) for line in ran.stdout.splitlines())
    assert failed["event"] == "failed"
    assert failed["error"].startswith("two buffers of 65536000 MiB do not fit into the ")


def test_it_says_how_large_buffers_and_caches_are() -> None:
    measured = json.loads(run("--json", "--size-mib", "9").stdout.splitlines()[0])
    assert measured["size_mib"] == 9
    assert measured["caches_mib"] >= 0
