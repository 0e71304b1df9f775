"""Storage that nodes really share, of the kind that containers can show: GlusterFS, which the site has (FUSE)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Site

pytestmark = [pytest.mark.lab, pytest.mark.shared_storage]

BLUEPRINT = """
schema: 1
name: shared
domain: shared.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.79.0.10}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}, addresses: "10.79.0.[11-12]"}
networks: {mgmt: {cidr: 10.79.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
storage:
  projects: {kind: glusterfs, external: "head:/projects", mount: /projects}
users: {ada: {uid: 2001}}
"""
# The site's server is one of the nodes, since a lab has no other: hpcforge does not know of it.
INSTALLS = "sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -qq glusterfs-server"
SERVES = """
sudo systemctl start glusterd && sudo install -d -m 1777 /srv/brick &&
sudo gluster --mode=script volume create projects $(hostname -I | cut -d' ' -f1):/srv/brick force &&
sudo gluster --mode=script volume start projects
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "blueprints").mkdir()
    (folder / "blueprints" / "rehearsal.yaml").write_text(BLUEPRINT)
    here = Site(folder, f"test-shared-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


def test_a_server_that_is_away_is_named_and_holds_nobody_up(site: Site) -> None:
    begun = time.monotonic()
    done = site.cli("apply", "BLUEPRINT", "--yes")
    print(f"apply without the server: {time.monotonic() - begun:.0f} s")
    assert done.returncode == 5
    assert "failed      storage_client: " in done.stdout
    assert site.ssh("w01", "systemctl is-active slurmd.service || :") != "active\n"  # no job before its files are there
    assert "/projects" not in site.ssh("w01", "cat /proc/self/mounts")

    site.ssh("head", INSTALLS)
    site.ssh("head", SERVES)
    for worker in ("w01", "w02"):  # by themselves
        site.becomes(worker, "mountpoint -q /projects && echo mounted || :", "mounted\n")
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert site.cli("plan", "BLUEPRINT").returncode == 0


def test_a_file_of_a_job_is_read_on_another_node_and_is_its_user_s(site: Site) -> None:
    site.ssh("head", "cd / && sudo -u ada srun -w w01 sh -c 'umask 077; hostname >/projects/of_ada'")
    assert site.ssh("head", "cd / && sudo -u ada srun -w w02 cat /projects/of_ada") == "w01\n"
    assert site.ssh("w02", "sudo -u ada stat -c '%U %a' /projects/of_ada") == "ada 600\n"


def test_the_server_goes_away_and_comes_back(site: Site) -> None:
    site.ssh("head", "sudo gluster --mode=script volume stop projects && sudo systemctl stop glusterd")
    begun = time.monotonic()
    away = site.cli("plan", "BLUEPRINT")
    print(f"plan without the server: {time.monotonic() - begun:.0f} s")
    assert away.returncode == 2
    assert "storage_client" in away.stdout
    assert site.ssh("w01", "id -un") == "ops\n"
    site.ssh("w02", "sudo umount -l /projects")
    site.ssh("head", "sudo systemctl start glusterd && sudo gluster --mode=script volume start projects")
    for worker in ("w01", "w02"):
        site.becomes(worker, "sudo -u ada cat /projects/of_ada 2>/dev/null || :", "w01\n")
    site.becomes("head", "sinfo -h -o '%T %D'", "idle 2\n")
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0


def test_a_mount_that_leaves_the_blueprint_leaves_the_nodes(site: Site) -> None:
    line = next(line for line in BLUEPRINT.splitlines() if line.startswith("  projects:"))
    site.blueprint.write_text(BLUEPRINT.replace(f"storage:\n{line}\n", ""))
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert site.ssh("w01", "ls -d /projects /etc/systemd/system/projects.* 2>/dev/null || :") == ""
    assert site.ssh("head", "sudo cat /srv/brick/of_ada") == "w01\n"
