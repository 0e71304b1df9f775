"""The shipped blueprints, and what no such asks for, resolved, and what the shipped roles make of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge import shipped
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Desired
from hpcforge.plan.role import Role, load_roles, site_role_code

SHIPPED = shipped.root() / "blueprints"
BLUEPRINTS = [
    path for folder in (SHIPPED, Path(__file__).parent / "blueprints") for path in sorted(folder.glob("*.yaml"))
]


@pytest.fixture(scope="session")
def roles() -> tuple[Role, ...]:
    return load_roles(shipped.root() / "roles")


@pytest.fixture(scope="session", params=BLUEPRINTS, ids=lambda path: path.stem)
def blueprint(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="session")
def cluster(blueprint: Path) -> Cluster:
    return load(blueprint).cluster


@pytest.fixture(scope="session")
def rehearsal() -> Cluster:
    return load(shipped.root() / "blueprints" / "rehearsal.yaml").cluster


@pytest.fixture(scope="session")
def compiled(roles: tuple[Role, ...]) -> Callable[[Cluster], Desired]:
    """What every node should have; the munge key is not there yet."""

    def compile_(cluster: Cluster) -> Desired:
        code = {role.name: site_role_code(role.path) for role in cluster.site_roles}
        return compile_desired(cluster, roles, {"munge_key": None}, code)

    return compile_
