from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs

Golden = Callable[[Path, str], None]
_TEST_LAB = re.compile(r"test-[a-z0-9]+-([0-9]+)(?:-[kx])?")  # every lab that a test makes: what for, and whose


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--refresh-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--every-boundary", action="store_true", help="kill at every event of an apply, not every fourth")
    parser.addoption("--fuzz-inputs", type=int, default=500, help="inputs that tests/fuzz makes and tries")
    parser.addoption("--fuzz-seed", type=int, default=1, help="what they are made from: the same seed, the same inputs")


def pytest_sessionstart() -> None:
    """Being told to end is like Ctrl-C: fixtures take down what they made. What a killed run left is removed first."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    if os.geteuid() == 0:
        for name in labs.lab_names():
            made_by = _TEST_LAB.fullmatch(name)
            if made_by and (int(made_by[1]) == os.getpid() or not Path(f"/proc/{made_by[1]}").exists()):
                labs.down(name, None, print)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with a golden file as a whole, or write it with --refresh-golden."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--refresh-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is not there; write it with --refresh-golden, then read it"
        assert text == path.read_text(encoding="utf-8")

    return compare
