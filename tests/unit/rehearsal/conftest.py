"""The rehearsal that every shipped blueprint of a real site would have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cli.site import stood_in
from hpcforge.cluster import Loaded, load
from hpcforge.run.site import Site

SITES = [path for path in sorted((bundled.root() / "blueprints").glob("*.yaml")) if not load(path).wants_lab]
DGX = bundled.root() / "blueprints" / "dgx-h100-site.yaml"


@pytest.fixture(scope="session", params=SITES, ids=lambda path: path.stem)
def real(request: pytest.FixtureRequest) -> Loaded:
    return load(request.param, judged=True)


@pytest.fixture(scope="session")
def dgx() -> Loaded:
    return load(DGX, judged=True)


@pytest.fixture(scope="session")
def rehearsal_of() -> Callable[..., Site]:
    """Of nodes, or of those that are chosen."""

    def made(loaded: Loaded, nodes: str | None = None) -> Site:
        return stood_in(loaded, None, "a-lab", Path("/nowhere/age.key"), nodes)

    return made
