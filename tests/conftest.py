from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs
from tests.support import locks
from tests.support.timing import Timing, read_budgets

Golden = Callable[[Path, str], None]
_TEST_LAB = re.compile(r"test-[a-z0-9-]+-([0-9]+)(?:-[kx])?")  # every lab that a test makes: what for, and whose

ON_DEMAND = {
    "debian-14": "of a release that is not out yet, whose packages change each day",
    "faults": "that plant faults on eight nodes, which `verify` must find and name",
    "hosts": "that plant what hosts had before on one of four nodes, which `apply` must name",
    "kills": "that kill applies of a cluster with Slurm, for hours",
    "metal": "that install a machine that boots from the network",
    "monitoring": "of nine faults on the full lab, ten quiet minutes, and an hour beside a worker that lies",
    "nvidia": "of NVIDIA's repository, with stubs, on a node",
    "suites": "of OSU, mpi4py, Slurm and ReFrame, whose sources --suite-sources names",
    "training": "of faults in training: in each mode, in checkpoints, of a node under a job",
    "templates": "of each template of `hpcforge init`, from nothing to a report of its acceptance",
    "shared-storage": "of storage between real nodes (GlusterFS, a bucket)",
    "vagrant": "that have Vagrant start virtual machines",
    "vm": "that start virtual machines",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--refresh-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--every-boundary", action="store_true", help="kill at every event of an apply, not every fourth")
    for mark, what in ON_DEMAND.items():
        parser.addoption(f"--{mark}", action="store_true", help=f"also the tests {what}: make test-{mark}")
    parser.addoption("--random-kills", type=int, default=40, help="how often --kills ends an apply at a random moment")
    parser.addoption("--kills-seed", type=int, default=1, help="what these moments are made from")
    parser.addoption("--healthy-runs", type=int, default=2, help="how often --faults verifies nodes without a fault")
    parser.addoption("--fault-table", help="write what --faults or --hosts found to this file, with the date")
    parser.addoption("--suite-sources", type=Path, help="the folder with the sources of --suites; fetch them first")
    parser.addoption("--fuzz-inputs", type=int, default=500, help="inputs that tests/fuzz makes and tries")
    parser.addoption("--fuzz-seed", type=int, default=1, help="what they are made from: the same seed, the same inputs")
    parser.addoption("--times", action="store_true", help="print the slowest tests, and the minutes of each story")
    parser.addoption("--budget", choices=read_budgets(), help="--times; fail at 1.5 times this target's budget")
    parser.addoption("--write-minutes", action="store_true", help="write the minutes of each story: tools/stories.py")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Timing(*map(config.getoption, ("--budget", "--times", "--write-minutes"))))
    config.pluginmanager.register(locks)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Being told to end is like Ctrl-C: fixtures take down what they made. What a killed run left is removed first."""
    os.environ["HPCFORGE_NO_IMAGE"] = "1"  # nodes of tests are the same whatever images this machine has
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    if not is_worker(session.config):
        remove_left_labs()


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """When all workers have ended, labs of one that was killed go, too."""
    yield
    if not is_worker(session.config):
        remove_left_labs()


def is_worker(config: pytest.Config) -> bool:
    """Whether this is one of several processes of pytest-xdist that run tests."""
    return hasattr(config, "workerinput")


def remove_left_labs() -> None:
    """Take down what this process, or one that is no more, has left."""
    if os.geteuid() == 0:
        for name in labs.lab_names():
            made_by = _TEST_LAB.fullmatch(name)
            if made_by and (int(made_by[1]) == os.getpid() or not Path(f"/proc/{made_by[1]}").exists()):
                labs.down(name, None, print)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Several workers take a file each: those with nodes come first, since they take longest. Some only on demand."""
    unasked = [mark.replace("-", "_") for mark in ON_DEMAND if not config.getoption(f"--{mark}")]
    left = [item for item in items if any(map(item.get_closest_marker, unasked))]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
    if is_worker(config):
        items.sort(key=lambda item: item.get_closest_marker("lab") is None)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with a golden file as a whole, or write it with --refresh-golden."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--refresh-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is not there; write it with --refresh-golden, then read it"
        assert text == path.read_text(encoding="utf-8")

    return compare
