"""A real apply on a real terminal: rows while nodes are at work, and only what happened when it is over."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from tests.stories.faults.conftest import NODES, Site
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lab

WIDTH, HEIGHT = 80, 24


def test_rows_come_and_go(site: Site) -> None:
    if site.run("apply", "--yes").returncode != 0:
        site.fresh()
        site.apply()
    for node in NODES:
        site.inside(node, "rm /etc/faults/client.conf; systemctl stop client.service")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    env = {**site._environment({}), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        env.pop(name, None)
    words = [sys.executable, *site._words(["apply", "--yes"])[1:]]
    results = site.folder / "stdout"
    with (
        results.open("w") as out,
        subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=theirs) as child,
    ):
        os.close(theirs)
        data = b""
        while True:
            try:
                data += os.read(ours, 65536)
            except OSError:  # how a pty ends
                break
        assert child.wait() == 0, data
    os.close(ours)
    screen = Terminal(WIDTH, HEIGHT)
    seen: set[str] = set()
    for frame in re.split(r"(?=\r\x1b\[2K\x1b\[1A)", data.decode()):
        screen.feed(frame)
        seen.update(screen.screen())
    assert any(" at work, " in line for line in seen)
    assert any(line.startswith("n02  ") and line.endswith(" s") for line in seen)
    over = "\n".join(line.rstrip() for line in screen.lines)
    assert " at work, " not in over
    assert "n02: client done" in over
    assert results.read_text().startswith("nodes ")
