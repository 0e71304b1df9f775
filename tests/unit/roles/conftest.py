"""The shipped blueprints, and what no such asks for, resolved, and what the shipped roles make of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster
from hpcforge.plan.desired import Desired
from hpcforge.plan.roles.role import Role, load_roles
from tests.unit.roles import goldens
from tests.unit.roles.goldens import BLUEPRINTS


@pytest.fixture(scope="session")
def promtool() -> str:
    found = shutil.which("promtool")
    assert found, "promtool is not installed: make host-test"
    return found


@pytest.fixture(scope="session")
def roles() -> tuple[Role, ...]:
    return load_roles(bundled.root() / "roles")


@pytest.fixture(scope="session", params=BLUEPRINTS, ids=lambda path: path.stem)
def blueprint(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="session")
def cluster(blueprint: Path) -> Cluster:
    return load(blueprint).cluster


@pytest.fixture(scope="session")
def rehearsal() -> Cluster:
    return load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster


@pytest.fixture(scope="session")
def compiled(roles: tuple[Role, ...]) -> Callable[[Cluster], Desired]:
    """What every node should have; the munge key is not there yet. The last cluster is remembered."""
    last: list[tuple[Cluster, Desired]] = []

    def of(cluster: Cluster) -> Desired:
        if not last or last[0][0] is not cluster:
            last[:] = [(cluster, goldens.compiled(cluster, roles))]
        return last[0][1]

    return of
