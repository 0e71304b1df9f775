"""What roles call artifacts: what the depot is to serve, what nodes get of it, and when."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster, Service
from hpcforge.kinds.downloads import Download
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Artifact, Desired, RoleNeed
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.roles.artifacts import NoDepotError
from hpcforge.plan.roles.role import RoleError, load_roles
from hpcforge.report.plan_text import plan_text
from hpcforge.run.result import Run
from hpcforge.run.stages import stages

DIGEST = "ab" * 32
DEPOT = """
description: Serves files.
on: "node.name in cluster.services.depot.on"
services: {depot: {description: Files., serves_artifacts: true}}
inputs: {serves: artifacts}
"""
TOOL = """
description: A tool.
on: "'worker' in node.functions"
units: [tool.service]
artifacts:
  - {name: tools/tool+1.bin, source: "https://example.org/1", sha256: DIGEST, size_bytes: 9, path: /opt/tool,
     mode: "755"}
  - {for_each: "['a', 'b']", name: "tools/{{ item }}.whl", source: pip, sha256: DIGEST}
"""
RUN = Run(1, "r1", "ops@here", "small", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"depot": DEPOT, "tool": TOOL}.items():
        (tmp_path / "own" / name).mkdir(parents=True)
        (tmp_path / "own" / name / "role.yaml").write_text(text.replace("DIGEST", DIGEST))
    (tmp_path / "own/depot/deploy.py").write_text("# nothing\n")
    return tmp_path / "own"


def compiled(cluster: Cluster, folder: Path) -> Desired:
    return compile_desired(cluster, load_roles(folder), {})


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "tool/role.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_the_depot_serves_what_all_roles_want_and_nodes_get_theirs(cluster: Cluster, folder: Path) -> None:
    desired = compiled(cluster, folder)
    tool = Artifact("tools/tool+1.bin", "https://example.org/1", DIGEST, 9)
    assert desired.artifacts == (Artifact("tools/a.whl", "pip", DIGEST), Artifact("tools/b.whl", "pip", DIGEST), tool)
    (depot,), (worker,) = desired.nodes["head"], desired.nodes["w1"]
    assert depot.opaque is not None
    assert [one["name"] for one in depot.opaque.inputs["serves"]] == [artifact.name for artifact in desired.artifacts]
    assert worker.resources == (Download("/opt/tool", "http://10.0.0.1/tools/tool%2B1.bin", DIGEST, 9, "0755"),)
    assert worker.units[0].watches == ("/opt/tool",)
    assert worker.needs == (RoleNeed("depot", ("head",)),)


def test_it_is_fetched_when_the_depot_is_worked_on_and_downloaded_after_that(cluster: Cluster, folder: Path) -> None:
    desired = compiled(cluster, folder)
    fresh = {name: Observation(name, python=False) for name in desired.nodes}
    plan = diff(cluster, desired, fresh)
    assert plan.changes.artifacts == desired.artifacts
    assert f"+ download /opt/tool  0755 (SHA-256 {DIGEST[:12]})" in plan_text(plan)
    waits = {stage.name: stage.after for stage in stages(plan, "w1", {}, RUN)}
    assert list(waits) == ["bootstrap", "downloads", "units and checks"]
    assert waits["downloads"] == (("head", "depot"),)
    # somebody changed it on one node: the depot has it, and nothing is fetched
    found = {"path": "/opt/tool", "exists": True, "digest": "00", "written": DIGEST}
    receipt = {"run": 1, "surplus": {}, "unowned": []}
    drifted = {name: Observation(name, receipt=receipt) for name in ("head", "w2")}
    drifted["w1"] = Observation("w1", differs={"tool": {"role": "tool", "downloads": [found]}}, receipt=receipt)
    plan = diff(cluster, desired, drifted)
    assert plan.changes.artifacts == ()
    change = plan.changes.steps[0].changes["w1"]
    assert (change.reason, change.units[0].reason) == ("drifted", "/opt/tool changed")


def test_without_a_node_that_serves_them_the_role_is_named(cluster: Cluster, folder: Path) -> None:
    nowhere = dataclasses.replace(cluster, services={**cluster.services, "depot": Service()})
    with pytest.raises(NoDepotError, match=r"artifacts of role tool .* `depot`, which no node provides") as error:
        compiled(nowhere, folder)
    assert error.value.hint == "under `services`:  depot: {on: NODE}"
    edit(folder, "'worker' in node.functions", "false")
    assert compiled(nowhere, folder).artifacts == ()  # a role that is nowhere wants nothing


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: tools/tool+1.bin", "name: ../tool", "is not FOLDER/FILE"),
        ("https://example.org/1", "ftp://example.org/1", "is not an address"),
        ("https://example.org/1", "https://me:secret@example.org/1", "is not an address"),
        ("https://example.org/1", "pip", "`pip` is only for wheels"),
        (f"sha256: {DIGEST}, size", "sha256: abc, size", "is not 64 digits"),
        ("size_bytes: 9", "size_bytes: many", "invalid literal"),
        ('mode: "755"', "mode: rwx", "tools/tool+1.bin: mode 'rwx' is not octal"),
        ("tools/{{ item }}.whl", "{{ item }}.whl", "{{ item }}.whl: name 'a.whl' is not FOLDER/FILE"),
        ("units:", "auto_rollback: true\nunits:", "cannot have artifacts"),
    ],
)
def test_what_cannot_be_one_is_refused(cluster: Cluster, folder: Path, old: str, new: str, said: str) -> None:
    edit(folder, old, new)
    with pytest.raises(RoleError, match=r"tool/role\.yaml") as error:
        compiled(cluster, folder)
    assert said in str(error.value)


def test_one_name_is_one_file(cluster: Cluster, folder: Path) -> None:
    (folder / "other").mkdir()
    other = TOOL.replace("DIGEST", "cd" * 32).replace("A tool", "Another")
    (folder / "other/role.yaml").write_text(other)
    with pytest.raises(RoleError, match=r"artifact tools/tool\+1\.bin differs from the one of role"):
        compiled(cluster, folder)


def test_artifacts_without_a_role_that_serves_them(cluster: Cluster, folder: Path) -> None:
    (folder / "depot/role.yaml").unlink()
    with pytest.raises(RoleError, match=r"tool/role\.yaml: has artifacts, but no role offers"):
        compiled(cluster, folder)
