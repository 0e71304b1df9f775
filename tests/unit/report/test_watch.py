"""The text that fills a terminal: what is on the screen, at any size, and that nothing is cleared in between."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from hpcforge.report.live import Watch

TEXT = "running:   no run\n\nnodes  Slurm\n" + "".join(f"w{number:02d}    idle\n" for number in range(1, 31))


def drawn(width: int, height: int, text: str, note: str = "") -> tuple[str, list[str]]:
    """All that was written, and the lines of the last picture without colours."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, height=height, legacy_windows=False)
    seconds = iter(range(1000))
    with Watch("demo:", console, clock=lambda: float(next(seconds))) as watch:
        watch.show(text)
        if note:
            watch.note(note)
            watch._live.refresh()
        before = stream.getvalue()
    last = before.rpartition("\x1b[H")[2]
    return before, [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", last).split("\n")]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (200, 60)])
def test_the_picture_has_the_size_of_the_window(width: int, height: int) -> None:
    written, lines = drawn(width, height, TEXT)
    assert lines[0].startswith("demo:")
    assert "running:   no run" in lines[2]
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert ("more lines" in "\n".join(lines)) == (height < 40)
    assert "\x1b[2J" not in written  # it is drawn over, not cleared


def test_a_note_stands_in_the_first_line_and_cannot_steer_the_terminal() -> None:
    written, lines = drawn(80, 24, "w01 \x1b[31mred\n", note="waiting for w02\n\x1b]0;title")
    assert lines[0].endswith("waiting for w02 \\x1b]0;title")
    assert "w01 \\x1b[31mred" in lines[2]
    assert "\x1b]0;" not in written


def test_the_first_picture_comes_before_any_answer() -> None:
    _, lines = drawn(80, 24, "")
    assert lines[0] == "demo:  asking the nodes  Ctrl-C ends"
