"""People of a directory in `slurm.accounts`: who is not known on the controller is named, and who is may run jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.people import enter
from tests.support.site import Site

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: people
domain: full.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.78.0.10}
  w01: {functions: [worker], hardware: rehearsal-node, addresses: 10.78.0.11}
networks: {mgmt: {cidr: 10.78.0.0/23}}
services: {dns: {on: head}, time: {on: head}, accounting: {on: head}, directory: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
  accounts: {research: {users: {ada: {}, grace: {fairshare: 10}}}}
users: {ada: {uid: 2001}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("people")
    (folder / "blueprints").mkdir()
    (folder / "blueprints" / "rehearsal.yaml").write_text(BLUEPRINT)
    here = Site(folder, f"test-people-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


def test_somebody_who_is_not_in_the_directory_is_named_and_who_is_may_run_jobs(site: Site) -> None:
    first = site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none")
    assert first.returncode == 5
    assert "grace is not known: neither a user of this node nor in the directory" in first.stdout + first.stderr
    assert "ada is not known" not in first.stdout + first.stderr

    shown = "sacctmgr -nP show assoc user=grace format=account,user,fairshare"
    assert site.ssh("head", shown) == ""  # slurmctld would remember that she has no number

    enter(site)
    site.becomes("head", "getent passwd grace | cut -d: -f3", "5001\n")  # SSSD asks again after a while
    assert "+ user grace account=research fairshare=10" in site.cli("plan", "BLUEPRINT").stdout
    assert site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none").returncode == 0
    assert site.ssh("head", shown) == "research|grace|10\n"
    assert site.ssh("head", "sudo -u grace srun -D / -w w01 id -un") == "grace\n"
    assert site.cli("plan", "BLUEPRINT").returncode == 0
