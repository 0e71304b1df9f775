"""What is seen of an apply on a terminal: pure, on rich's recorded console, and on a real pty."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from hpcforge.engines.tasks import Event
from hpcforge.report.live import Board
from hpcforge.report.progress import Progress
from tests.support.terminal import Terminal

HOSTILE = "\x1b[2J\x1b[31mred\x07\n\r\u202e\t名前" + "x" * 300


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def board(nodes: Sequence[str], clock: Clock | None = None) -> Board:
    made = Board(clock or Clock())
    made.expect(nodes)
    return made


def stage(node: str, name: str = "packages and files", task: str = "t", **data: Any) -> Event:
    return Event(node, task, "stage", {"name": name, "roles": ["base", "munge"], **data})


def ended(node: str, status: str = "done") -> Event:
    return Event(node, "", "ended", {"status": status})


def texts(made: Board, width: int = 80, height: int = 20) -> list[str]:
    return [line.plain for line in made.lines(width, height)]


def test_a_row_a_node_at_work_with_what_it_does_and_since_when() -> None:
    clock = Clock()
    made = board(["w1", "w2", "w10"], clock)
    made.take(stage("w1"))
    clock.now = 7.0
    made.take(stage("w10", "units and checks", "u"))
    made.take(Event("w10", "u", "changed", {"role": "munge", "kind": "unit", "name": "munge.service", "detail": "x"}))
    clock.now = 12.0
    assert texts(made) == [
        "w1   packages and files  base, munge".ljust(76) + "12 s",
        "w10  munge               unit munge.service".ljust(77) + "5 s",
        "0 done, 0 failed, 2 at work, 1 waiting",
    ]


def test_what_has_ended_is_counted_and_gone() -> None:
    made = board(["a", "b", "c", "d", "e"])
    for node, status in {"a": "done", "b": "failed", "c": "deferred", "d": "other"}.items():
        made.take(stage(node))
        made.take(ended(node, status))
    assert texts(made) == ["1 done, 1 failed, 1 deferred, 1 not done, 0 at work, 1 waiting"]
    made.take(ended("e"))
    assert texts(made) == []


def test_a_node_between_two_stages_waits() -> None:
    made = board(["w1", "head"])
    made.take(stage("w1", task="prepare:w1"))
    made.take(Event("w1", "drain:w1:1", "result", {"ok": True}))
    assert len(texts(made)) == 2
    made.take(Event("w1", "prepare:w1", "result", {"ok": True}))
    assert texts(made) == ["0 done, 0 failed, 0 at work, 2 waiting"]


def test_draining_and_restarting_are_work() -> None:
    made = board(["w1", "w2"])
    made.take(Event("w1", "", "draining", {"detail": "12, 13"}))
    made.take(stage("w2", "reboot"))
    made.take(Event("w2", "", "restarting", {"detail": "is back after 40 s"}))
    first, second, _ = texts(made)
    assert first.startswith("w1  drain   waits for jobs 12, 13 ")
    assert second.startswith("w2  reboot  is back after 40 s ")


@pytest.mark.parametrize("width", [1, 5, 12, 20, 39, 40, 69, 70, 200])
@pytest.mark.parametrize("height", [0, 1, 2, 3, 24])
def test_nothing_is_wider_or_higher_than_the_screen(width: int, height: int) -> None:
    nodes = [f"rack07-gpu{number:04}" for number in range(1000)]
    made = board(nodes)
    for node in nodes[:500]:
        made.take(stage(node))
        made.take(Event(node, "t", "progress", {"role": None, "detail": HOSTILE}))
    made.take(ended(nodes[0], "failed"))
    lines = texts(made, width, height)
    assert len(lines) == min(height, 24)
    assert all(cell_len(line) <= width for line in lines)
    assert all(character.isprintable() for line in lines for character in line)
    if height == 24 and width >= 40:
        assert lines[-2] == f"and {499 - 22} more"
        assert "499" in lines[-1]


def test_the_longest_at_work_are_shown() -> None:
    clock = Clock()
    made = board(["w1", "w2", "w3", "w4"], clock)
    for now, node in enumerate(["w3", "w1", "w4", "w2"]):
        clock.now = float(now)
        made.take(stage(node))
    assert [line.split()[0] for line in texts(made, 40, 4)] == ["w3", "w1", "and", "0"]


def recorded(monkeypatch: pytest.MonkeyPatch, *, colour: bool) -> Console:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    return Console(
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        force_interactive=True,
        width=60,
        height=12,
        soft_wrap=True,
    )


@pytest.mark.parametrize("colour", [True, False])
def test_no_color(monkeypatch: pytest.MonkeyPatch, colour: bool) -> None:
    console = recorded(monkeypatch, colour=colour)
    with Progress(console=console) as progress, progress.phase("configure"):
        progress.nodes(["w1", "w2"])
        progress.event(stage("w2"))
        progress.event(ended("w1", "failed"))
        progress.event(Event("w1", "", "settled", {"role": "base", "status": "failed", "detail": "no\x1b[31m space"}))
        console.print(progress._drawn())
    text = console.export_text(clear=False)
    assert "w1: base FAILED: no\\x1b[31m space" in text
    assert "w2  packages and files: base, munge" in text
    assert "0 done, 1 failed, 1 at work, 0 waiting" in text
    assert isinstance(console.file, io.StringIO)
    coloured = re.search(r"\x1b\[[0-9;]*3[0-9]", console.file.getvalue())
    assert bool(coloured) is colour


_CHILD = """
import sys, time
from hpcforge.engines.tasks import Event
from hpcforge.report.progress import Progress
nodes = [f"gpu{n:04}" for n in range(1000)]
with Progress() as progress, progress.phase("configure"):
    progress.nodes(nodes)
    for node in nodes[:300]:
        progress.event(Event(node, "t", "stage", {"name": "packages and files", "roles": ["base"]}))
        progress.event(Event(node, "t", "progress", {"role": "base", "detail": HOSTILE}))
    for node in nodes[:20]:
        progress.event(Event(node, "", "settled", {"role": "base", "status": "done", "detail": ""}))
        progress.event(Event(node, "", "ended", {"status": "done"}))
    time.sleep(0.7)
    sys.stderr.write("somebody else's words\\n")
    time.sleep(0.7)
    print("PAUSE", flush=True)
    sys.stdin.readline()
progress.say("over")
"""


_REDRAWN = "\r\x1b[2K\x1b[1A"  # how a frame begins: the one before it is whole


def on_a_terminal(width: int, height: int, **environment: str) -> tuple[Terminal, Terminal]:
    """What is seen in the midst of it, and at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    words = [sys.executable, "-c", _CHILD.replace("HOSTILE", repr(HOSTILE))]
    env = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment}
    for name in ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR"):
        if name not in environment:
            env.pop(name, None)
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs) as child:
        os.close(theirs)
        assert child.stdin
        assert child.stdout
        seen = b""
        while not select.select([child.stdout], [], [], 0)[0]:
            seen += read(ours, 0.05)
        until, drawn = time.monotonic() + 60, env["TERM"] != "dumb"
        while not come(midst := so_far(seen, width, height), drawn=drawn) and time.monotonic() < until:
            seen += read(ours, 0.1)  # it draws on while it waits for us
        child.stdin.write(b"\n")
        child.stdin.close()
        ended, more = False, b""
        while more or not ended:
            ended = child.poll() is not None  # then once more, for what came between reading and asking
            more = read(ours, 0.1)
            seen += more
    os.close(ours)
    end = Terminal(width, height)
    end.feed(seen.decode())
    return midst, end


def so_far(seen: bytes, width: int, height: int) -> Terminal:
    """What is seen by all frames that are whole."""
    midst = Terminal(width, height)
    midst.feed(seen.decode(errors="ignore").rpartition(_REDRAWN)[0] or seen.decode(errors="ignore"))
    return midst


def come(midst: Terminal, *, drawn: bool) -> bool:
    """Whether the words of somebody else have come, and, where rows are drawn, the last counts."""
    lines = [line.rstrip() for line in midst.lines]
    return "somebody else's words" in lines and (not drawn or any("280" in line for line in midst.screen()))


def read(fd: int, timeout_s: float) -> bytes:
    """What comes until nothing does for so long."""
    got, until = b"", time.monotonic() + 5
    while time.monotonic() < until and select.select([fd], [], [], timeout_s)[0]:
        try:
            data = os.read(fd, 65536)
        except OSError:  # how a pty ends
            break
        if not data:
            break
        got += data
    return got


@pytest.mark.parametrize(("width", "height"), [(40, 12), (120, 30)])
def test_a_real_terminal(width: int, height: int) -> None:
    midst, end = on_a_terminal(width, height)
    screen = midst.screen()
    *rows, counts, cursor = screen if screen[-1] == "" else [*screen, ""]
    assert cursor == ""
    assert counts.startswith("20 done, 0 failed, 280 at work, 700 waiting" if width > 60 else "+20 -0 at work 280/980")
    assert re.fullmatch(r"and \d+ more", rows[-1])
    table = [row for row in rows if row.startswith("gpu") and row.endswith(" s")]
    assert 3 < len(table) < height
    assert f"and {280 - len(table)} more" == rows[-1]
    assert all("\\x1b[2J" in row for row in table)
    above = [line.rstrip() for line in midst.lines]
    assert [line for line in above if line.endswith("base done")][-1].endswith("gpu0019: base done")
    assert sum(line.endswith("base done") for line in above) == 20
    assert "somebody else's words" in above
    last = [line.rstrip() for line in end.lines if line.strip()]
    assert last[-1].endswith("over")
    assert not any(line.startswith("gpu") or "at work" in line for line in last)  # only lines that stay are left


def test_without_a_screen_there_are_plain_lines() -> None:
    midst, _end = on_a_terminal(80, 24, TERM="dumb")
    assert not any("at work" in line for line in midst.lines)
    assert sum(line.endswith("base done") for line in midst.lines) == 20


def test_the_first_row_has_the_time_that_is_probably_left() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=60, height=10)
    progress = Progress(console=console)
    with progress.phase("configure"):
        progress.expect(200.0)
        assert str(progress._drawn().renderables[0].text).endswith("  about 3 min 20 s left")  # type: ignore[union-attr]
        progress.expect(0.0)
        assert str(progress._drawn().renderables[0].text).endswith("  longer than before")  # type: ignore[union-attr]
        progress.expect(None)
        assert str(progress._drawn().renderables[0].text) == "configure"  # type: ignore[union-attr]


def test_without_a_terminal_a_wait_is_printed_at_once_and_other_details_are_thinned_out() -> None:
    out = io.StringIO()
    lock = "waiting: E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 255 (apt)"
    with Progress(out) as progress:
        progress.say("w01: time done")
        for detail in ("80 % installed: chrony", lock, "90 % installed: chrony"):
            progress.event(Event("w02", "prepare:w02", "progress", {"role": None, "detail": detail}))
    assert [line.partition(" s] ")[2] for line in out.getvalue().splitlines()] == ["w01: time done", f"w02: {lock}"]


def test_in_a_pipe_counted_work_has_a_line_at_its_begin_and_at_its_end() -> None:
    out = io.StringIO()
    with Progress(out) as progress:
        with progress.tally("starting nodes", ["w1", "w2", "w3"]) as tally:
            for node in ("w1", "w2"):
                with tally.part(node):
                    pass
        with progress.tally("installing packages", 300) as tally:
            for done in range(301):
                tally.reach(done)
    lines = [re.sub(r"\d+ s$", "N s", line.partition(" s] ")[2]) for line in out.getvalue().splitlines()]
    assert lines == [
        "starting nodes ...",
        "starting nodes: 2 of 3, N s",
        "installing packages ...",
        "installing packages: 300 of 300, N s",
    ]
    assert "\r" not in out.getvalue() and "\x1b" not in out.getvalue()


def test_on_a_terminal_counted_work_has_rows_the_longest_first_and_an_estimate_after_a_third() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=90, height=12)
    progress = Progress(console=console)

    def drawn() -> list[str]:
        first, *rows = progress._drawn().renderables
        return [str(first.text), *map(str, rows)]  # type: ignore[union-attr]

    progress.nodes(["head", "w1"])  # of a run, in which this is a phase
    with progress.tally("starting nodes", [f"w{number}" for number in range(1, 7)]) as tally:
        tally.begin("w1")
        tally.begin("w2")
        assert drawn()[0] == "starting nodes: 0 of 6"
        assert [row.split()[0] for row in drawn()[1:]] == ["w1", "w2", "0"]
        tally.end("w1")
        tally.end("w2", failed=True)
        tally.add("w7")
        tally.begin("w7")
        assert drawn()[-1] == "1 done, 1 failed, 1 at work, 4 waiting"
        tally.begin("w2")  # again
        tally.end("w3")
        assert drawn()[-1] == "2 done, 0 failed, 2 at work, 3 waiting"
        tally.end("w2")
        assert drawn()[0].rstrip().endswith("longer than expected")  # each took no time at all
    assert drawn() == ["", "0 done, 0 failed, 0 at work, 2 waiting"]
