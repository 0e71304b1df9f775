"""What tests on machines have configured, which run on demand, is a blueprint whenever any tests run."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.verify.submit import launch
from tests.stories.vm.test_machines import ACCEPTANCE, BLUEPRINT, PYTORCH

STORIES = Path(__file__).parents[2] / "stories"
FILES = [*STORIES.glob("vm/test_*.py"), *STORIES.glob("vagrant/test_*.py")]
HAVE_ONE = sorted(file for file in FILES if "\nBLUEPRINT = " in file.read_text())


@pytest.mark.parametrize("file", HAVE_ONE, ids=lambda file: file.stem)
def test_it_is_valid(file: Path, tmp_path: Path) -> None:
    role = tmp_path / "roles" / "any" / "role.yaml"  # some have further roles, by the name of their folder
    role.parent.mkdir(parents=True)
    role.write_text("description: Nothing.\non: 'false'\n")
    blueprint = tmp_path / "machines.yaml"
    blueprint.write_text(importlib.import_module(f"tests.stories.{file.parent.name}.{file.stem}").BLUEPRINT)
    found = load(blueprint, judged=True).diagnostics
    assert [one for one in found if not one.message.startswith("STORAGE-004")] == []  # one drive is enough for a test


def test_an_all_reduce_of_machines_has_a_rank_on_each_worker(tmp_path: Path) -> None:
    blueprint = tmp_path / "machines.yaml"
    said = BLUEPRINT.replace(*PYTORCH) + ACCEPTANCE
    blueprint.write_text("".join(line for line in said.splitlines(keepends=True) if "role_folders" not in line))
    cluster = load(blueprint, judged=True).cluster
    assert cluster.acceptance is not None
    (test,) = cluster.acceptance.tests
    job = launch(cluster, [test], test.nodes)
    assert (job.nodelist, job.ranks_per_node, job.ranks) == ("w[01-02]", 1, 2)
