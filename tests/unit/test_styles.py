"""Styles: colours only on a terminal that has them, none for text from outside, and never the only sign of anything."""

from __future__ import annotations

import copy
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from hpcforge.report.text import clean, lines_text, table, within
from hpcforge.styles import cut, joined, lines_of, painted, state, styled

REPOSITORY = Path(__file__).parents[2]
WRONG = REPOSITORY / "tests" / "unit" / "blueprint" / "cases" / "five_mistakes.yaml"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def test_a_styled_text_is_its_text_alone_wherever_it_is_used() -> None:
    text = "w01  " + styled("failed", "bad") + ": no space"
    assert (text, {text: 1}) == ("w01  failed: no space", {"w01  failed: no space": 1})
    assert json.loads(json.dumps({"a": text, "b": copy.deepcopy(text)})) == {"a": str(text), "b": str(text)}
    assert type(f"{text}") is str
    assert painted(copy.deepcopy(text)) == painted(text) == "w01  \x1b[1;31mfailed\x1b[0m: no space"
    assert painted("w01  failed") == "w01  failed"


def test_parts_keep_their_styles_where_a_text_is_cut_joined_and_cleaned() -> None:
    line = joined([styled("base", "title"), "w[01-03]", styled("\x1b[2J", "warn")], "  ")
    assert painted(cut(line, 2, 8)) == "\x1b[1mse\x1b[0m  w["
    assert painted(clean(line)) == "\x1b[1mbase\x1b[0m  w[01-03]  \x1b[1;33m\\x1b[2J\x1b[0m"
    assert [painted(part) for part in lines_of(line + "\n" + styled("a\nb", "hint"))] == [
        painted(line), "\x1b[36ma\x1b[0m", "\x1b[36mb\x1b[0m",
    ]  # fmt: skip
    assert painted(lines_text([line, "a\nb"])).endswith("\x1b[0m\na b\n")


def test_a_state_in_a_table_has_its_style_and_the_same_word_from_outside_has_none() -> None:
    rows = [["w01", state("passed"), "it has failed  passed"], ["w02", state("odd"), ""]]
    text = table(("nodes", "result", ""), rows)
    assert painted(text) == ("nodes  result\nw01    \x1b[32mpassed\x1b[0m  it has failed  passed\nw02    odd\n")


@pytest.mark.parametrize("width", [24, 60])
def test_a_cell_of_several_lines_keeps_its_style(width: int) -> None:
    rows = [["r1", styled("NOT CARRIED by its feeds", "bad")]]
    shown = painted(within(table(("rack", "one feed lost"), rows, "  ", width), width))
    assert max(map(len, _ESCAPE.sub("", shown).splitlines())) <= width
    assert shown.count("\x1b[1;31m") == (2 if width == 24 else 1)


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
