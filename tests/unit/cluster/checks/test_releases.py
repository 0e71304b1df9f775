"""Nodes of several releases: which may stand beside which, while a cluster is upgraded."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.checks.releases import out_of_order

TEXT = """\
schema: 1
name: mixed
domain: mixed.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.1.0.1}
  storage: {functions: [storage], hardware: rehearsal-node, addresses: 10.1.0.2}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, addresses: "10.1.0.[11-12]"}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}, accounting: {on: storage}}
software: {os: {name: debian, release: "RELEASE"}}
slurm: {controller: head, partitions: {main: {nodes: all, default: true}}}
users: {tests: {uid: 2001}}
"""


def mixed(tmp_path: Path, release: str, **others: str) -> Loaded:
    path = tmp_path / "mixed.yaml"
    rows = "".join(f'  {name}: {{release: "{other}", reason: not upgraded yet}}\n' for name, other in others.items())
    path.write_text(TEXT.replace("RELEASE", release) + (f"overrides:\n{rows}" if others else ""), encoding="utf-8")
    return load(path, judged=False)


def test_workers_may_be_three_releases_of_slurm_behind(tmp_path: Path) -> None:
    cluster = mixed(tmp_path, "14", w01="13", w02="13").cluster
    assert out_of_order(cluster) == {}
    assert cluster.slurm_versions == ((24, 11), (26, 5))
    assert cluster.slurm_settings is not None
    assert "PrologFlags" in cluster.slurm_settings
    assert "NamespaceType" not in cluster.slurm_settings  # slurmd 24.11 would refuse the whole file
    head, worker = (cluster.seen_from(cluster.by_name[name].platform) for name in ("head", "w01"))
    assert (head.os.release, head.os.python) == ("14", "3.14")
    assert (worker.os.release, worker.os.python) == ("13", "3.13")


def test_one_release_needs_no_platforms(tmp_path: Path) -> None:
    cluster = mixed(tmp_path, "14", w01="14").cluster
    assert {node.platform for node in cluster.nodes} == {None}
    assert cluster.seen_from(cluster.by_name["w01"].platform) is cluster


@pytest.mark.parametrize(
    ("release", "others", "message"),
    [
        ("13", {"w01": "14"}, "w01 would have Slurm 26.05 of debian 14, newer than slurmctld 24.11, which refuses it"),
        (
            "14",
            {"w02": "12"},
            "w02 would have Slurm 22.05 of debian 12, and slurmctld 26.05 works with 24.11 and later",
        ),
        ("14", {"storage": "13"}, "head would have Slurm 26.05 of debian 14, newer than slurmdbd 24.11"),
        ("14", {"head": "13"}, "w01 would have Slurm 26.05 of debian 14, newer than slurmctld 24.11"),
        ("13", {"w01": "15"}, "unknown release `15` of debian"),
    ],
)
def test_another_order_is_refused(tmp_path: Path, release: str, others: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        mixed(tmp_path, release, **others)
    errors = [one for one in caught.value.diagnostics if one.severity == "error"]
    assert errors[0].message.startswith(message)
    assert errors[0].mark is not None


def test_the_database_may_be_ahead_of_all(tmp_path: Path) -> None:
    assert out_of_order(mixed(tmp_path, "13", storage="14").cluster) == {}


@pytest.mark.parametrize(("release", "lacks"), [("12", True), ("13", False)])
def test_a_container_runtime_that_the_release_lacks_is_named_at_the_users_line(
    tmp_path: Path, release: str, lacks: bool
) -> None:
    path = tmp_path / "site.yaml"
    text = TEXT.replace("RELEASE", release)
    path.write_text(text.replace("software: {", "software: {containers: {runtimes: [apptainer]}, "), encoding="utf-8")
    if not lacks:
        assert load(path, judged=False).cluster.container_runtimes == ("apptainer",)
        return
    with pytest.raises(InvalidInput) as caught:
        load(path, judged=False)
    [error] = [entry for entry in caught.value.diagnostics if entry.severity == "error"]
    assert error.message.startswith("debian 12 lacks `apptainer`: ")
    assert (error.source.name, error.line) == (str(path), 11)
