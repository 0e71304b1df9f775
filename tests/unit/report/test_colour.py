"""Colours: only on a terminal that has them, only of words of ours, and never the only sign of anything."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from hpcforge.report.colour import Kind, painted

REPOSITORY = Path(__file__).parents[3]
WRONG = REPOSITORY / "tests" / "unit" / "blueprint" / "cases" / "five_mistakes.yaml"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize(
    ("kind", "line", "seen"),
    [
        ("plan", "  + file /etc/a  0644 root:root", "\x1b[32m+ file /etc/a  0644 root:root\x1b[0m"),
        ("plan", "      -# mine", "\x1b[31m-# mine\x1b[0m"),
        ("plan", "      --- on the node", "\x1b[2m--- on the node\x1b[0m"),
        ("plan", "time  w02  (drifted, disrupts: restart)", "\x1b[1mtime\x1b[0m  w02"),
        ("plan", "time  w02  (drifted, disrupts: restart)", "\x1b[1;33mrestart\x1b[0m)"),
        ("plan", "Nothing to do on 4 nodes.", "\x1b[32mNothing"),
        ("states", "w03  unreachable  -  -", "\x1b[1;31munreachable\x1b[0m"),
        ("states", "allreduce  passed  6 ranks on w[01-03]", "\x1b[32mpassed\x1b[0m"),
        ("states", "w01   10.77.0.11  stopped", "\x1b[1;33mstopped\x1b[0m"),
        ("states", "3  2026-11-20 10:00:00  ada  3 min 10 s  failed  -", "\x1b[1;31mfailed\x1b[0m"),
        ("diagnostics", "a.yaml:4:1: error: unknown key", "\x1b[1;31merror:\x1b[0m"),
        ("diagnostics", "hint: did you mean `access`?", "\x1b[36mhint:\x1b[0m"),
        ("events", "[   9.1 s] w02: base done", "w02: base \x1b[32mdone\x1b[0m"),
        ("events", "[   9.1 s] w02: base FAILED: no space", "\x1b[1;31mFAILED\x1b[0m: no space"),
    ],
)
def test_signs_and_words_of_ours_have_their_colour(kind: Kind, line: str, seen: str) -> None:
    shown = painted(line, kind)
    assert seen in shown
    assert _ESCAPE.sub("", shown) == line


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("states", "w01  reported  it has failed  passed"),
        ("plan", "      context + file"),
        ("diagnostics", "    4 | acess: {user: hint: error}"),
    ],
)
def test_words_that_came_from_outside_have_none(kind: Kind, line: str) -> None:
    assert painted(line, kind) == line


def on_a_terminal(*words: str, width: int = 80, **environment: str) -> str:
    """What a command writes to a terminal, results and all."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
    command = [sys.executable, "-m", "hpcforge", *words]
    with subprocess.Popen(
        command, env={**env, **environment}, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=REPOSITORY
    ) as child:
        os.close(theirs)
        data = b""
        while True:
            try:
                data += os.read(ours, 65536)
            except OSError:  # how a pty ends
                break
        child.wait()
    os.close(ours)
    return data.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [80, 120])
def test_a_design_is_as_wide_as_its_terminal_and_loses_nothing(width: int) -> None:
    blueprint = "blueprints/dgx-h100-pod.yaml"
    piped = subprocess.run(
        [sys.executable, "-m", "hpcforge", "design", blueprint],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert max(map(len, piped.splitlines())) > width
    shown = on_a_terminal("design", blueprint, width=width, TERM="dumb")
    assert max(map(len, shown.splitlines())) <= width
    assert sorted("".join(shown.split())) == sorted("".join(piped.split()))


def test_on_a_terminal_alone_and_not_where_they_are_not_wanted() -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "hpcforge", "validate", str(WRONG)],
        env={**os.environ, "TERM": "xterm-256color"},
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    assert "\x1b" not in piped
    coloured = on_a_terminal("validate", str(WRONG), TERM="xterm-256color")
    assert coloured.count("\x1b[1;31merror:\x1b[0m") == 5
    assert coloured.count("\x1b[1;31m^") == 5
    assert _ESCAPE.sub("", coloured) == piped
    for plain in ({"TERM": "dumb"}, {"TERM": "xterm-256color", "NO_COLOR": "1"}):
        assert on_a_terminal("validate", str(WRONG), **plain) == piped
