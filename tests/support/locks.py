"""Which versions are installed here, beside those that `make develop` installs.

Printed at the end of a run of tests where they differ: `make test-newest` is meant to, and elsewhere a failure may come
from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

FOLDER = Path(__file__).parents[2] / "locks"
DEVELOPMENT = FOLDER / "development.txt"


def pins(lock: Path) -> Iterator[Requirement]:
    """The requirements of a lock file, without their digests."""
    for line in lock.read_text().splitlines():
        if line[:1].isalnum():
            yield Requirement(line.removesuffix("\\"))


def differing(lock: Path) -> list[str]:
    """What is installed in another version than is locked, or not at all."""
    differences = []
    for pin in pins(lock):
        locked = str(pin.specifier).removeprefix("==")
        if pin.marker is None or pin.marker.evaluate():
            try:
                installed = version(pin.name)
            except PackageNotFoundError:
                installed = "not installed"
            if installed != locked:
                differences.append(f"{pin.name} {installed} (locked: {locked})")
    return differences


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what differs from the lock."""
    if differences := differing(DEVELOPMENT):
        terminalreporter.section("versions that differ from locks/development.txt")
        terminalreporter.line("\n".join(differences))
