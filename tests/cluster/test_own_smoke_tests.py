"""A site's own smoke test: asked for by name, brought to the workers, launched and judged as shipped ones are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.model import SmokeTest
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.role import load_roles
from hpcforge.verify.head import Completed
from hpcforge.verify.judge import judge
from hpcforge.verify.submit import launch, srun
from tests.shipped import ROOT

CASES = ROOT / "tests" / "blueprint" / "cases"
PROGRAM = (CASES / "test_folders" / "site" / "disk_write" / "disk_write.py").read_text()


def disk_write() -> tuple[SmokeTest, ...]:
    acceptance = load(CASES / "test_folders.yaml").cluster.acceptance
    assert acceptance is not None
    return tuple(one for one in acceptance.tests if one.name == "disk_write")


def test_its_program_is_brought_to_the_workers_and_follows_the_folder() -> None:
    loaded = load(CASES / "test_folders.yaml")
    made = compile_desired(loaded.cluster, load_roles(*loaded.role_folders), {})
    path = "/opt/hpcforge/smoke_tests/disk_write.py"
    files = {
        node: [file for one in made.nodes[node] for file in one.of(File) if file.path == path] for node in made.nodes
    }
    assert {node: len(found) for node, found in files.items()} == {"head": 0, "w01": 1, "w02": 1, "w03": 1, "w04": 1}
    assert made.texts[str(files["w01"][0].digest)] == PROGRAM


def test_it_is_launched_and_judged_as_shipped_ones_are() -> None:
    cluster, (test,) = load(CASES / "test_folders.yaml").cluster, disk_write()
    job = launch(cluster, [test], test.nodes)
    assert srun(job, "7")[-3:] == ["/usr/bin/python3", "/opt/hpcforge/smoke_tests/disk_write.py", "--json"]
    lines = [
        f"{number}: {json.dumps(event)}"
        for number, node in enumerate(("w01", "w02"))
        for event in (
            {"event": "node", "host": node},
            {"event": "measurement", "sync_ms": 2.5 + number},
            {"event": "result"},
        )
    ]
    (verdict,) = judge(job, Completed(0, "".join(f"{line}\n" for line in lines), ""))
    assert (verdict.test, verdict.status, verdict.headline) == ("disk_write", "passed", "3 ms")


@pytest.mark.parametrize("elsewhere", ["../theirs", "{tmp_path}/theirs"])
def test_the_folder_is_relative_to_the_blueprint_or_anywhere(tmp_path: Path, elsewhere: str) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "theirs").symlink_to(CASES / "test_folders" / "site")
    text = (CASES / "test_folders.yaml").read_text()
    path = tmp_path / "sites" / "a.yaml"
    path.write_text(text.replace("test_folders/site", elsewhere.format(tmp_path=tmp_path)))
    acceptance = load(path).cluster.acceptance
    assert acceptance is not None
    assert {one.name for one in acceptance.tests} == {"allreduce", "disk_write"}
