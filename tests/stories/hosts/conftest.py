"""A rehearsal of four nodes, saved before its first apply and after it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from hpcforge.lab import lab as labs
from tests.support.host_faults import read_faults
from tests.support.host_lab import NODES, Cluster
from tests.support.site import REPOSITORY, Site

_FAILED: list[str] = []
_SECONDS: dict[str, object] = {}  # by fault


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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the seconds until each fault was named, also of tests that other processes ran."""
    if report.when == "call" and Path(__file__).parent.name in Path(report.fspath).parts:
        _SECONDS.update(report.user_properties)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Print the seconds, and write them if --fault-table is given."""
    if not _SECONDS or hasattr(session.config, "workerinput"):
        return
    measured = {fault.name: _SECONDS[fault.name] for fault in read_faults() if fault.name in _SECONDS}
    table = yaml.safe_dump({"date": f"{datetime.now(UTC):%Y-%m-%d}", "seconds": measured}, sort_keys=False)
    print(table)
    if path := session.config.getoption("--fault-table"):
        Path(path).write_text(table)


@pytest.fixture
def cluster(applied: Cluster) -> Cluster:
    """The configured nodes, also after a test that failed."""
    if _FAILED:
        _FAILED.clear()
        applied.restore("configured")
    return applied
