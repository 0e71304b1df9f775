"""File systems that nodes serve over another network than that of their addresses."""

from __future__ import annotations

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.mounts import Mount
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Desired
from hpcforge.plan.roles.role import load_roles
from hpcforge.rehearsal.lab_facts import LabFacts, LabMachine
from hpcforge.rehearsal.stand_in_rules import RULES
from hpcforge.rehearsal.stand_ins import rehearsed

BLUEPRINT = """\
schema: 1
name: apart
domain: apart.example.org
access: {user: ops}
nodes:
  head:     {functions: [head], hardware: rehearsal-node, addresses: 10.1.0.1}
  s[01-02]: {functions: [storage], hardware: rehearsal-node, addresses: "10.1.0.[5-6]"}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}, addresses: "10.1.0.[12-13]"}
networks:
  mgmt: {cidr: 10.1.0.0/24, boot: true}
  files: {cidr: 10.2.0.0/24, interface: eth1, mtu: 9000, configure: true}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  partitions: {main: {nodes: all, default: true}}
users: {tests: {uid: 2001}}
roles: {firewall: {enabled: true}}
storage:
  homes:    {kind: nfs, server: s01, network: files, path: /srv/homes, mount: /homes, homes: true}
  projects: {kind: nfs, server: s01, network: files, path: /srv/projects, mount: /projects}
  apps:     {kind: nfs, server: s01, path: /srv/apps, mount: /apps}
"""


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    path = tmp_path_factory.mktemp("apart") / "site.yaml"
    path.write_text(BLUEPRINT)
    return load(path).cluster


@pytest.fixture(name="desired", scope="module")
def _desired(cluster: Cluster) -> Desired:
    return compile_desired(cluster, load_roles(bundled.root() / "roles"), {"munge_key": None})


def text(desired: Desired, node: str, path: str) -> str:
    (file,) = (
        resource for role in desired.nodes[node] for resource in role.resources if getattr(resource, "path", "") == path
    )
    return desired.texts[file.digest]


def test_clients_mount_it_from_the_servers_address_there(desired: Desired) -> None:
    mounts = {one.path: one for role in desired.nodes["w01"] for one in role.of(Mount)}
    assert {path: mount.what for path, mount in mounts.items()} == {
        "/homes": "10.2.0.5:/srv/homes", "/projects": "10.2.0.5:/srv/projects", "/apps": "10.1.0.5:/srv/apps",
    }  # fmt: skip


def test_servers_let_in_addresses_of_that_network_alone(desired: Desired) -> None:
    exports = text(desired, "s01", "/etc/exports.d/hpcforge.exports").splitlines()[1:]
    assert [line.partition("(")[0] for line in exports] == [
        "/srv/homes 10.2.0.1", "/srv/homes 10.2.0.6", "/srv/homes 10.2.0.12/31",
        "/srv/projects 10.2.0.12/31", "/srv/apps 10.1.0.12/31",
    ]  # fmt: skip
    assert "elements = { 10.1.0.0/24, 10.2.0.0/24 }" in text(desired, "s01", "/etc/nftables.d/hpcforge.nft")


def test_a_nodes_own_interface_is_there_before_it_serves_or_mounts(desired: Desired) -> None:
    for node in ("s01", "w01"):
        order = [role.role for role in desired.nodes[node]]
        needs = {role.role: {need.role for need in role.needs} for role in desired.nodes[node]}
        for role in {"nfs_server", "storage_client"} & {*order}:
            assert "networks" in needs[role]


def test_of_a_lab_it_is_on_the_one_network_that_is_there(cluster: Cluster) -> None:
    machines = {name: LabMachine(node.address, node.host_keys) for name, node in cluster.by_name.items()}
    lab = LabFacts(machines, "10.1.0.0/24", "ops", None, 1, 2, 1, 1024, boots=False)
    inside, stand_ins = rehearsed(cluster, lab, RULES)
    assert {one.network for one in inside.storage} == {None}
    said = {one.name: one.sentence for one in stand_ins}
    assert "without networks files" in said["networks"] and "/homes (nfs)" in said["storage"]
