"""Inputs handed to workers, and what is wrong with their answers: what `validate` owes to any file whatever."""

from __future__ import annotations

import json
import lzma
import os
import queue
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.machine import slowness

MAX_CPU_S = 2.0  # on the machine that limits are for
MAX_MIB = 256
_PATIENCE_S = 60  # of a clock on the wall: a busy machine is slow, an endless loop is for ever
_A_WORKER = 100  # inputs
_FOLDERS = ("roles", "tests")
_LONGEST_OUTPUT = 200_000  # characters: a hundred errors of each severity, each with a long line


@dataclass(frozen=True)
class Input:
    """A blueprint, the inventory that it may name as `machines.yaml`, and files of the folders that it names."""

    name: str
    blueprint: bytes
    inventory: bytes | None = None
    as_json: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)  # by path

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "blueprint.yaml").write_bytes(self.blueprint)
        machines = folder / "machines.yaml"
        machines.unlink(missing_ok=True)
        if self.inventory is not None:
            machines.write_bytes(self.inventory)
        for name in _FOLDERS:
            shutil.rmtree(folder / name, ignore_errors=True)
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder / "blueprint.yaml"

    @classmethod
    def read(cls, folder: Path) -> Input:
        """What `write` wrote; either file may be packed, as in blueprint.yaml.xz."""
        blueprint = _unpacked(folder / "blueprint.yaml")
        assert blueprint is not None, f"{folder} has no blueprint.yaml"
        there = [path for name in _FOLDERS for path in (folder / name).rglob("*") if path.is_file()]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in there}
        return cls(folder.name, blueprint, _unpacked(folder / "machines.yaml"), files=files)


@dataclass(frozen=True)
class Answer:
    """What came of an input; `wrong` says what should not have."""

    tried: Input
    code: int | None
    cpu_s: float
    wrong: str | None


class _Worker:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, str(Path(__file__).with_name("worker.py"))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)

    def ask(self, one: Input) -> Answer:
        asked = {"path": str(one.write(self.folder)), "as_json": one.as_json}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], _PATIENCE_S)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.end()
            return Answer(one, None, 0.0, "the worker died" if ready else f"no answer within {_PATIENCE_S} s")
        said = json.loads(line)
        return Answer(one, said["code"], said["cpu_s"], _wrong(said))

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def answers(inputs: Iterable[Input], folder: Path, workers: int | None = None) -> Iterator[Answer]:
    """Yield the answer to each input, in no order; a worker with a wrong answer is replaced by another."""
    waiting, found = iter(inputs), queue.SimpleQueue()
    lock = threading.Lock()

    def work(own: Path) -> None:
        try:
            try_inputs(own)
        except BaseException as error:  # else `answers` waits without end
            found.put(error)
        else:
            found.put(None)

    def try_inputs(own: Path) -> None:
        own.mkdir(parents=True)
        worker, tried = _Worker(own), 0
        try:
            while True:
                with lock:
                    one = next(waiting, None)
                if one is None:
                    return
                answer = worker.ask(one)
                tried += 1
                # What one input took does not count against the next; nor do templates that hpcforge keeps for its run.
                if answer.wrong or tried % _A_WORKER == 0:
                    worker.end()
                    worker = _Worker(own)
                found.put(answer)
        finally:
            worker.end()

    threads = [
        threading.Thread(target=work, args=(folder / str(number),), daemon=True)
        for number in range(workers or len(os.sched_getaffinity(0)))
    ]
    for thread in threads:
        thread.start()
    for _ in threads:
        for answer in iter(found.get, None):
            if isinstance(answer, BaseException):
                raise answer
            yield answer


def _wrong(said: dict[str, object]) -> str | None:
    """What an answer has that none may have."""
    printed = str(said["printed"])
    odd = {c for c in printed if not c.isprintable() and c not in "\n\t"}
    if said["traceback"]:
        return str(said["traceback"])
    if said["code"] not in (0, 3):
        return f"exit code {said['code']}: {printed[:400]}"
    if float(str(said["cpu_s"])) > MAX_CPU_S * slowness():
        return f"{said['cpu_s']:.1f} s"
    if float(str(said["peak_mib"])) > MAX_MIB:
        return f"{said['peak_mib']:.0f} MiB"
    if odd:
        return f"printed {sorted(odd)}"
    return f"printed {len(printed):,} characters" if len(printed) > _LONGEST_OUTPUT else None


def _unpacked(path: Path) -> bytes | None:
    if path.exists():
        return path.read_bytes()
    packed = path.with_name(f"{path.name}.xz")
    return lzma.decompress(packed.read_bytes()) if packed.exists() else None
