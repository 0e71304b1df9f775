"""Long results on a terminal go through a pager, on a real pseudo-terminal; elsewhere nothing changes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cli import _LONG_READING, _VERBS
from hpcforge.report.printing import lines_on, pager_command

HEIGHT, WIDTH = 24, 80
LONG = ("catalog", "list")
SHORT = ("explain", "POWER-003")
TERMINAL = {
    "TERM": "xterm",
    "PATH": os.environ["PATH"],
    "LC_ALL": "C.UTF-8",
    "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
}
# Verbs that ask, show progress while they change nodes, or hand the terminal to another program.
OTHERS = {"apply", "discover", "export", "image", "init", "netboot", "nodes", "pin", "power", "rehearse", "role",
          "secrets", "trust", "validate", "verify"}  # fmt: skip


def on_a_terminal(*words: str, keys: bytes = b"", until: str = "", **environment: str) -> tuple[int, str]:
    """Run hpcforge on a terminal, and type keys once `until` is on it. Return its exit status and all that it wrote."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    command = [sys.executable, "-m", "hpcforge", *words]
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, env=TERMINAL | environment, start_new_session=True, **streams) as child:  # type: ignore[call-overload]
        os.close(theirs)
        seen = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # how a pty ends
                break
            seen += data
            if keys and until in seen.decode(errors="replace"):
                os.write(ours, keys)
                keys = b""
        code = child.wait(60)
    os.close(ours)
    return code, seen.decode()


@pytest.fixture(scope="module")
def whole() -> list[str]:
    """The names that the long result has, as a pipe gets them."""
    done = subprocess.run(
        [sys.executable, "-m", "hpcforge", *LONG], env=TERMINAL, capture_output=True, text=True, check=True
    )
    names = [line.split()[1] for line in done.stdout.splitlines() if line]
    assert len(names) > 3 * HEIGHT
    return names


def missing(names: list[str], text: str) -> list[str]:
    words = {*re.sub(r"\x1b\[[0-9;]*m", "", text).split()}
    return [name for name in names if name not in words]


def test_a_pager_gets_all_of_a_long_result(whole: list[str], tmp_path: Path) -> None:
    code, seen = on_a_terminal(*LONG, PAGER=f"cat > {tmp_path / 'text'}")
    assert code == 0
    assert seen.startswith("Next: hpcforge catalog show ")  # a note, which no pager gets
    assert missing(whole, (tmp_path / "text").read_text()) == []


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_less_shows_the_first_page_and_leaves_at_q(whole: list[str]) -> None:
    code, seen = on_a_terminal(*LONG, keys=b"q", until=whole[5])
    assert code == 0
    assert whole[5] in seen
    assert whole[-1] not in seen
    assert "Traceback" not in seen


@pytest.mark.parametrize("command", ["head -n 3", "head -c 1; exit 0", "kill -9 $$", "read -r line; kill -INT $$"])
def test_a_reader_who_leaves_early_is_no_error(command: str) -> None:
    code, seen = on_a_terminal(*LONG, PAGER=command)
    assert code == 0
    assert "Traceback" not in seen
    assert "Broken pipe" not in seen


@pytest.mark.parametrize("command", ["/nowhere/pager", "false", "exit 3", "'"])
def test_a_broken_pager_loses_nothing(command: str, whole: list[str]) -> None:
    code, seen = on_a_terminal(*LONG, PAGER=command)
    assert code == 0
    assert missing(whole, seen) == []
    assert "Traceback" not in seen


@pytest.mark.parametrize(
    "environment", [{"PAGER": "cat"}, {"HPCFORGE_PAGER": "cat", "PAGER": "touch {}"}, {"PAGER": ""},
                    {"PAGER": "touch {}", "TERM": "dumb"}]
)  # fmt: skip
def test_it_can_be_turned_off(environment: dict[str, str], whole: list[str], tmp_path: Path) -> None:
    mark = tmp_path / "called"
    code, seen = on_a_terminal(*LONG, **{name: text.format(mark) for name, text in environment.items()})
    assert code == 0
    assert missing(whole, seen) == []
    assert not mark.exists()


def test_what_fits_the_terminal_and_what_is_wrong_need_no_pager(tmp_path: Path) -> None:
    mark = tmp_path / "called"
    code, seen = on_a_terminal(*SHORT, PAGER=f"touch {mark}")
    assert (code, "POWER-003" in seen) == (0, True)
    code, seen = on_a_terminal("show", str(tmp_path / "none.yaml"), PAGER=f"touch {mark}")
    assert code == 3
    assert not mark.exists()


def test_a_pipe_has_no_pager(whole: list[str], tmp_path: Path) -> None:
    mark = tmp_path / "called"
    environment = TERMINAL | {"PAGER": f"touch {mark}"}
    done = subprocess.run(
        [sys.executable, "-m", "hpcforge", *LONG], env=environment, capture_output=True, text=True, check=True
    )
    assert missing(whole, done.stdout) == []
    assert not mark.exists()


def test_the_exit_status_stays_and_notes_follow_the_result(tmp_path: Path) -> None:
    blueprint = str(bundled.root() / "blueprints" / "rehearsal.yaml")
    code, seen = on_a_terminal("plan", blueprint, "--offline", PAGER=f"cat > {tmp_path / 'text'}")
    assert code == 2
    assert (tmp_path / "text").read_text().count("\n") > HEIGHT
    assert "Traceback" not in seen


def test_colours_go_through_the_pager_but_for_no_color(tmp_path: Path) -> None:
    blueprint = str(bundled.root() / "blueprints" / "rehearsal.yaml")
    words = ("plan", blueprint, "--offline")
    on_a_terminal(*words, PAGER=f"cat > {tmp_path / 'coloured'}")
    on_a_terminal(*words, PAGER=f"cat > {tmp_path / 'plain'}", NO_COLOR="1")
    assert "\x1b[" in (tmp_path / "coloured").read_text()
    assert "\x1b" not in (tmp_path / "plain").read_text()


def test_no_verb_that_asks_is_read_through_a_pager() -> None:
    assert {*_LONG_READING} == {*_VERBS} - OTHERS


def test_the_command_and_the_lines() -> None:
    assert pager_command({"TERM": "xterm", "PAGER": "more"}) == "more"
    assert pager_command({"TERM": "xterm", "PAGER": "more", "HPCFORGE_PAGER": " most "}) == "most"
    assert pager_command({"TERM": "xterm", "PAGER": " cat "}) is None
    assert pager_command({"PAGER": "more"}) is None
    assert lines_on("a\n\n" + "b" * 81 + "\n", 80) == 4
    assert lines_on("\u5b57" * 41, 80) == 2
