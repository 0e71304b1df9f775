"""A rehearsal of a real site has secrets of its own: `hpcforge secrets --lab` shows and changes those."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge.lab.names import lab_directory
from tests.support.site import Site

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: real
domain: real.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 192.0.2.10}
networks: {mgmt: {cidr: 192.0.2.0/24}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  partitions: {main: {nodes: head, default: true}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "blueprints").mkdir()
    text = BLUEPRINT.replace("functions: [head]", "functions: [head, worker]")
    (folder / "blueprints" / "rehearsal.yaml").write_text(text)
    here = Site(folder, f"test-secrets-{os.getpid()}")
    try:
        done = here.cli("rehearse", "up", "BLUEPRINT")
        assert done.returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


def munge_key(site: Site, *options: str, blueprint: Path | None = None) -> str | None:
    """The fingerprint of the munge key, as `secrets list` has it."""
    shown = site.cli("secrets", "list", "BLUEPRINT", "--json", *options, blueprint=blueprint)
    assert shown.returncode == 0
    return {load["name"]: load["fingerprint"] for load in json.loads(shown.stdout)["secrets"]}.get("munge_key")


def test_they_are_those_of_the_lab(site: Site) -> None:
    """`Site.cli` names the lab by HPCFORGE_LAB, which is what `--lab` is."""
    of_lab, of_site = lab_directory(site.lab) / "secrets.age", site.blueprint.with_suffix(".age")
    made = site.cli("secrets", "init", "BLUEPRINT")
    assert f"{of_lab}: made " in made.stderr
    assert of_lab.exists()
    assert not of_site.exists()
    before = munge_key(site)
    assert before is not None
    shown = site.cli("secrets", "show", "BLUEPRINT", "munge_key", "--reveal", "--lab", site.lab)
    assert shown.returncode == 0
    rotated = site.cli("secrets", "rotate", "BLUEPRINT", "munge_key", "--lab", site.lab)
    assert f"--lab {site.lab}" in rotated.stderr
    assert munge_key(site, "--lab", site.lab) not in (None, before)
    away = site.cli("secrets", "list", "BLUEPRINT", "--lab", "no-such-lab")
    assert away.returncode == 3
    assert "the rehearsal 'no-such-lab' is not up" in away.stderr
    assert not of_site.exists()
