"""Each template of `hpcforge init`: from nothing to tests that passed, and the report of its acceptance."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge.starter.draft import OF_MACHINES, templates
from tests.support.in_process import hpcforge
from tests.support.real_site import Rehearsal

pytestmark = [pytest.mark.lab, pytest.mark.templates]

NODES = {"nvlink": "g[01-02]", "roce": "g[01-02]", "mixed": "c01,g01", "one-machine": "node01"}


@pytest.fixture(params=NODES)
def rehearsal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Rehearsal]]:
    name = str(request.param)
    here = Rehearsal(tmp_path, f"test-template-{name}-{os.getpid()}")
    yield name, here
    here.cli("rehearse", "down")


def test_every_template_is_tried() -> None:
    assert NODES.keys() == templates().keys() - {OF_MACHINES}


def test_a_template_becomes_a_cluster_that_is_accepted(rehearsal: tuple[str, Rehearsal]) -> None:
    name, here = rehearsal
    site, page = str(here.folder / "site.yaml"), here.folder / "acceptance.html"
    assert hpcforge("init", site, "--template", name).returncode == 0
    assert hpcforge("validate", site).returncode == 0
    here.cli("rehearse", "up", site, "--nodes", NODES[name])
    here.cli("apply", site, "--yes")
    here.cli("verify", site)
    said = here.cli("report", "acceptance", site, "--html", str(page), "--json")
    report = json.loads(said[said.index("{") :])
    assert report["judgement"] == "accepted with exceptions"
    assert {found["kind"] for found in report["exceptions"]} == {"rehearsal"}
    assert page.stat().st_size > 10_000
