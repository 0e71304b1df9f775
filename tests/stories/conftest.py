"""A site for a story: a copy of the shipped rehearsal, and a lab of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.support.site import REPOSITORY, Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(REPOSITORY / "blueprints", folder / "blueprints", ignore=shutil.ignore_patterns("*.age"))
    here = Site(folder, f"test-e2e-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")
