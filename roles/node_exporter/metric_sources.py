"""Read the sources of a metric program, each in a process of its own, and write Prometheus' text format.

A source that is missing, garbled, huge or hangs costs its own metrics alone; `hpcforge_source_up` names it. A process
that hangs in the kernel, where no signal ends it, keeps a lock: the next run starts no second one. The programs of
roles that collect metrics import this file. Standard library, Python 3.9.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

LOCKS = "/run"
LIMIT_S = 18.0  # for all sources together: NVML needs 16 s for eight GPUs without persistence mode
CONFIG_S = 3.0
REAP_S = 0.5
MOST_BYTES = 64 << 20  # of a file, and of a command's output: 190,000 jobs of squeue
MOST_ITEMS = 8 << 20  # bytes of a source's items
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
HELP = {"hpcforge_source_up": "Whether a source of a collector's metrics answered."}
Sample = tuple[str, dict[str, str], float]


class CommandError(OSError):
    """A command failed."""


class Answer(NamedTuple):
    """The items of a source, as JSON returns them; those before a failure, too."""

    items: list[Any]
    up: bool


def read(
    collector: str, sources: Mapping[str, Callable[[], Iterable[Any]]], limit_s: float = LIMIT_S
) -> dict[str, Answer]:
    """Read all sources at once; those that take longer than `limit_s` are ended."""
    until_s = time.monotonic() + limit_s
    started = {name: _start(f"{collector}-{name}", source) for name, source in sources.items()}
    processes = {name: process for name, process in started.items() if process}
    texts = _received([pipe for _, pipe in processes.values()], until_s, MOST_ITEMS)
    answers = {name: Answer([], False) for name in sources}
    for name, (pid, pipe) in processes.items():
        answers[name] = _answer(texts[pipe])
        os.close(pipe)
        if not answers[name].up and time.monotonic() >= until_s:
            log(f"{collector}-{name}", f"no answer within {limit_s:g} s")
        _end(pid)
    return answers


def config(
    collector: str, path: str, samples: Callable[[dict[str, Any]], Iterable[Sample]]
) -> tuple[dict[str, Any], Answer]:
    """Return a program's configuration, empty where it is unusable, and this source's answer: the samples of it."""

    def items() -> Iterator[Any]:
        loaded = {**json.loads(content(path))}
        yield loaded
        yield from samples(loaded)

    answer = read(collector, {"config": items}, CONFIG_S)["config"]
    loaded, *rest = answer.items or [{}]
    return (loaded if answer.up else {}), Answer(rest, answer.up)


def content(path: str) -> str:
    """Return the text of a file. Raises OSError or ValueError where it is missing, too large or not UTF-8."""
    with open(path, "rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise OSError(f"{path} has more than {MOST_BYTES} bytes")
    return text.decode()


def run(*command: str) -> tuple[int, str, str]:
    """Run a command in a source's process. Return its status, output and errors."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT,
        close_fds=False,  # it keeps the source's lock
    ) as process:  # fmt: skip
        assert process.stdout and process.stderr
        pipes = [process.stdout.fileno(), process.stderr.fileno()]
        texts = _received(pipes, time.monotonic() + LIMIT_S, MOST_BYTES, together=True)
        if any(len(text) > MOST_BYTES for text in texts.values()):
            process.kill()
            raise OSError(f"{command[0]} printed more than {MOST_BYTES} bytes")
    output, errors = (texts[pipe].decode(errors="replace") for pipe in pipes)
    return process.returncode, output, errors


def output(*command: str) -> str:
    """Return what a command prints. Raises CommandError where it fails, OSError where it cannot run."""
    status, text, errors = run(*command)
    if status != 0:
        raise CommandError(f"{command[0]}: {errors.strip()[:300] or f'status {status}'}")
    return text


def up(collector: str, answers: Mapping[str, Answer]) -> Iterator[Sample]:
    """Yield whether each source answered."""
    for name, answer in answers.items():
        yield "hpcforge_source_up", {"collector": collector, "source": name}, answer.up


def lines(samples: Iterable[Sample]) -> Iterator[str]:
    """Yield the text format: all samples of a metric together, the last of those with the same labels."""
    by_name: dict[str, dict[str, float]] = {}
    for name, labels, value in samples:
        shown = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
        by_name.setdefault(name, {})[shown] = value
    for name, values in by_name.items():
        if name in HELP:
            yield f"# HELP {name} {HELP[name]}"
        yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
        for shown, value in values.items():
            yield f"{name}{{{shown}}} {float(value)!r}"


def escaped(text: str) -> str:
    """Return a text as the value of a label."""
    plain = "".join(char if char.isprintable() else "?" for char in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def _start(name: str, source: Callable[[], Iterable[Any]]) -> Optional[tuple[int, int]]:
    """Start to read a source. Return the process and its pipe, or None while an earlier one hangs."""
    try:
        lock = os.open(os.path.join(LOCKS, f"hpcforge-metrics-{name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        log(name, "its process of an earlier run still hangs")
        return None
    except OSError as error:
        log(name, str(error))
        return None
    pipe, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.set_inheritable(lock, True)
        _write(name, source, into)
    with contextlib.suppress(OSError):  # whichever process is first
        os.setpgid(pid, pid)
    os.close(lock)
    os.close(into)
    return pid, pipe


def _write(name: str, source: Callable[[], Iterable[Any]], into: int) -> None:
    """Write a source's items, a JSON line each and an empty one at the end. Ends this process."""
    try:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)  # the publisher reads the program's output to its end
        for item in source():
            _write_all(into, json.dumps(item).encode() + b"\n")
        os.write(into, b"\n")
    except Exception as error:
        log(name, f"{type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _write_all(into: int, text: bytes) -> None:
    while text:
        text = text[os.write(into, text) :]


def _received(pipes: list[int], until_s: float, most: int, together: bool = False) -> dict[int, bytearray]:
    """Return what comes through each pipe until it ends, the time is up, or it is more than `most` bytes.

    With `together` one that is too long ends all.
    """
    texts = {pipe: bytearray() for pipe in pipes}
    pending = set(pipes)
    while pending and time.monotonic() < until_s:
        for pipe in select.select([*pending], [], [], max(0.0, until_s - time.monotonic()))[0]:
            part = os.read(pipe, 1 << 16)
            texts[pipe] += part
            if not part:
                pending.discard(pipe)
            elif len(texts[pipe]) > most:
                pending -= pending if together else {pipe}
    return texts


def _answer(text: bytearray) -> Answer:
    *complete, rest = bytes(text).split(b"\n")
    ended = bool(complete) and not complete[-1] and not rest
    return Answer([json.loads(line) for line in complete if line], ended)


def _end(pid: int) -> None:
    """End a source's processes. One that hangs in the kernel stays, and is not waited for."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)
    until_s = time.monotonic() + REAP_S
    while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < until_s:
        time.sleep(0.005)


def log(name: str, message: str) -> None:
    """Write a warning to the journal: the timers keep what is below notice out of it (sd-daemon(3), LogLevelMax)."""
    print(f"<4>{name}: {message}"[:400], file=sys.stderr, flush=True)
