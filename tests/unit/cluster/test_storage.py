"""Kinds of file systems as data, and what a blueprint's `storage` comes to."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.node import unit_files
from hpcforge.rehearsal.lab_facts import LabFacts, LabMachine
from hpcforge.rehearsal.stand_in_rules import RULES
from hpcforge.rehearsal.stand_ins import rehearsed

BLUEPRINT = Path(__file__).parents[1] / "roles" / "blueprints" / "storage.yaml"


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return load(BLUEPRINT).cluster


def test_what_of_ours_is_mounted(cluster: Cluster) -> None:
    projects, apps, archive, *_ = cluster.storage
    assert projects.what == "10.1.0.9:/srv/projects"
    assert projects.options == "nosuid,nodev,hard,vers=4.2,retry=0,nconnect=8"
    assert projects.on == ("login1", "stor", "w01", "w02", "w03", "w04")  # who runs jobs, and where people log in
    assert apps.on == ("w01", "w02", "w03", "w04")
    assert archive.options == "nosuid,nodev,hard,retry=0,vers=3"  # what is chosen counts before what is usual


def test_a_server_binds_its_own_folder(cluster: Cluster) -> None:
    here, archive = cluster.file_systems(cluster.by_name["stor"])[:2]
    assert archive.type == "nfs"
    assert (here.what, here.type, here.packages) == ("/srv/projects", "none", ())
    assert [file_system.name for file_system in cluster.file_systems(cluster.by_name["head"])] == ["homes"]


def test_homes_are_the_same_everywhere_but_hers_by_whom_hpcforge_comes_in(cluster: Cluster) -> None:
    assert cluster.homes is not None
    assert cluster.homes.on == tuple(cluster.by_name)
    assert [user.home for user in cluster.users] == ["/home/ops", "/homes/tests"]


def test_what_is_served_from_a_volume_has_its_quota(cluster: Cluster) -> None:
    assert cluster.homes is not None
    assert (cluster.homes.volume, cluster.homes.quota_gib) == ("disks", 100)
    assert {one.volume for one in cluster.storage if one is not cluster.homes} == {None}


def test_exports_are_for_clients_alone(cluster: Cluster) -> None:
    projects, apps, *_ = cluster.storage
    assert cluster.clients(projects) == ("10.1.0.2", "10.1.0.12/30")  # not for the head, nor for the server itself
    assert cluster.clients(apps) == ("10.1.0.12/30",)


@pytest.mark.parametrize("mount", ["/projects", "/usr/local/our-apps", "/a.b/c_d/e-f"])
def test_units_are_named_as_the_node_names_them(cluster: Cluster, mount: str) -> None:
    one = dataclasses.replace(cluster.storage[0], mount=mount)
    assert one.unit == f"{unit_files.escaped(mount)}.mount"


@pytest.mark.parametrize(
    ("boots", "what", "kind"),
    [(True, "tmpfs", "tmpfs"), (False, "/media/rehearsal-shared", "none")],
    ids=["in memory", "one folder"],
)
def test_a_rehearsal_has_something_instead(cluster: Cluster, boots: bool, what: str, kind: str) -> None:
    machines = {name: LabMachine(node.address, node.host_keys) for name, node in cluster.by_name.items()}
    lab = LabFacts(machines, "10.1.0.0/24", "ops", None, 1, 2, 1, 1024, boots=boots)
    inside, stand_ins = rehearsed(cluster, lab, RULES)
    [said] = [one for one in stand_ins if one.name == "storage"]
    assert "/projects (nfs)" in said.sentence
    assert "/fast (gpfs)" in said.sentence
    assert ("is one folder of this machine, which all nodes share" in said.sentence) is not boots
    for was, now in zip(cluster.storage, inside.storage, strict=True):
        assert (now.mount, now.on) == (was.mount, was.on)
        assert (now.type, now.what, now.server, now.packages) == (kind, what, None, ())
    assert {user.homes for user in inside.users} == {"/home"}  # what is in memory is no place for a home
