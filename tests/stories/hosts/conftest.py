"""A rehearsal of four nodes, saved before its first apply and after it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs
from tests.support.host_lab import NODES, Cluster
from tests.support.site import REPOSITORY, Site

_FAILED: list[str] = []


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The rehearsal, applied once."""
    folder = tmp_path_factory.mktemp("hosts")
    shutil.copytree(REPOSITORY / "blueprints", folder / "blueprints", ignore=shutil.ignore_patterns("*.age"))
    here = Cluster(Site(folder, f"test-hosts-{os.getpid()}"), {})
    try:
        assert here.site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        labs.save(here.site.lab, "bare", print)
        assert here.site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none").returncode == 0
        labs.save(here.site.lab, "configured", print)
        assert (
            here.site.cli("plan", "BLUEPRINT", "--verify", "none").returncode == 0
        )  # also waits until all daemons answer
        here.state = {node: here.listing(node) for node in NODES}
        yield here
    finally:
        here.site.cli("rehearse", "down")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and Path(__file__).parent in item.path.parents:
        _FAILED.append(item.nodeid)
    return report


@pytest.fixture
def cluster(applied: Cluster) -> Cluster:
    """The configured nodes, also after a test that failed."""
    if _FAILED:
        _FAILED.clear()
        applied.restore("configured")
    return applied
