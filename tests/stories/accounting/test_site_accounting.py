"""The site's slurmdbd: asked before slurmctld is told of it, told what runs, and away. Slurm 22.05 of Debian 12."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stories.accounting.test_accounting import a_job, applied, edited, planned
from tests.support.site import Site

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: told
domain: told.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head, login], hardware: rehearsal-node, addresses: 10.80.4.10}
  w01: {functions: [worker], hardware: rehearsal-node, addresses: 10.80.4.11}
networks: {mgmt: {cidr: 10.80.4.0/24}}
services: {dns: {on: head}, time: {on: head}, accounting: {external: [w01]}}
software: {os: {name: debian, release: "12"}}
roles: {slurm_accounting_site: {enforced: true}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
users:
  ada: {uid: 2001}
  bob: {uid: 2002}
"""
# The site's slurmdbd is on a worker, since a lab has no other machine: hpcforge does not know of it. It has a munged of
# its own, as on a machine that is none of the cluster's: what is done to its key is not done to the worker's.
OF_THE_SITE = """set -e
sudo apt-get update -qq
sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -qq slurmdbd mariadb-server >/dev/null
sudo systemctl start mariadb
sudo mariadb -e "CREATE DATABASE slurm_acct_db; CREATE USER slurm@localhost IDENTIFIED BY 'site';
  GRANT ALL ON slurm_acct_db.* TO slurm@localhost"
sudo install -d /etc/site-munge
printf '%s\\n' '[Service]' User=munge RuntimeDirectory=site-munge \\
  'ExecStart=/usr/sbin/munged --foreground --key-file=/etc/site-munge/key --socket=/run/site-munge/socket \\
  --pid-file=/run/site-munge/pid --log-file=/run/site-munge/log --seed-file=/run/site-munge/seed' |
  sudo tee /etc/systemd/system/site-munge.service >/dev/null
printf '%s\\n' AuthType=auth/munge AuthInfo=socket=/run/site-munge/socket DbdHost=w01 SlurmUser=slurm \\
  StorageType=accounting_storage/mysql StorageUser=slurm StoragePass=site PidFile=/run/slurmdbd.pid |
  sudo install -o slurm -m 0600 /dev/stdin /etc/slurm/slurmdbd.conf
sudo systemctl daemon-reload
"""
# It listens once it has its database.
STARTS = """set -e
echo {key} | sudo install -o munge -m 0400 /dev/stdin /etc/site-munge/key
sudo systemctl restart site-munge slurmdbd
for try in $(seq 1500); do
  test -S /run/site-munge/socket && ss -Hltn 'sport = :6819' | grep -q 6819 && exit 0
  sleep 0.2
done
systemctl status --no-pager site-munge slurmdbd >&2
exit 1
"""
CLUSTERS = "sudo mariadb -N -e 'SELECT name FROM slurm_acct_db.cluster_table WHERE deleted = 0 ORDER BY name'"
# The site's own work, here by root of the head: another cluster and its people, then ours.
OF_ANOTHER = """sudo sh -c 'set -e
sacctmgr -i add cluster elsewhere
sacctmgr -i add account theirs cluster=elsewhere
sacctmgr -i add user bob account=theirs cluster=elsewhere' >/dev/null
"""
OF_ADA = """sudo sh -c 'set -e
sacctmgr -i add account research cluster=told
sacctmgr -i add user ada account=research cluster=told' >/dev/null
"""
CONTROLLER = "systemctl show -P MainPID slurmctld; scontrol show config | grep -oE 'KillWait += [0-9]+'"


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "blueprints").mkdir()
    (tmp_path / "blueprints" / "rehearsal.yaml").write_text(BLUEPRINT)
    here = Site(tmp_path, f"test-site-accounting-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")


def a_key() -> str:
    """A key of MUNGE's as a line of text: its line break is part of it."""
    return f"{secrets.token_hex(32)}\n"


def started(site: Site, key: str) -> None:
    """The site's munged and slurmdbd anew, with this key."""
    site.ssh("w01", STARTS.format(key=key.strip()))


def in_sacct(site: Site, job: str, wanted: str) -> None:
    site.becomes("head", f"sudo sacct -nPX -j {job} -o cluster,user,account,state", wanted)


def test_the_sites_slurmdbd_is_relied_on_once_it_answers(told: Site) -> None:
    site, key = told, a_key()
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    site.ssh("w01", OF_THE_SITE)
    started(site, key)

    # Its key is the cluster's, and the site's to give: nothing is done without it.
    refused = site.cli("plan", "BLUEPRINT")
    assert refused.returncode == 3
    assert "secret munge_site_key is not set" in refused.stderr
    assert site.cli("secrets", "set", "BLUEPRINT", "munge_site_key", said=key).returncode == 0
    assert applied(site).returncode == 0
    assert planned(site) == {}
    assert site.ssh("w01", CLUSTERS) == "told\n"

    # Other clusters and their people are no business of ours; who may run here is said there.
    site.ssh("head", OF_ANOTHER)
    refused = site.cli("rehearse", "ssh", "head", "--", "sudo -iu ada sbatch --wrap true")
    assert refused.returncode != 0
    assert "Invalid account" in refused.stderr
    site.ssh("head", OF_ADA)
    in_sacct(site, a_job(site, "ada"), "told|ada|research|COMPLETED\n")
    assert site.ssh("w01", CLUSTERS) == "elsewhere\ntold\n"
    assert planned(site) == {}

    # It is away: a plan says so, jobs run on.
    site.ssh("w01", "sudo systemctl stop slurmdbd")
    meanwhile = a_job(site, "ada")
    assert "Connection refused" in " ".join(planned(site)["slurm_accounting_site"])

    # It has another key: what else there is to tell slurmctld waits.
    before = site.ssh("head", CONTROLLER)
    assert before.endswith(" 30\n")
    started(site, a_key())
    edited(site, "  enforce: []\n", "  enforce: []\n  settings: {KillWait: 31}\n")
    failed = applied(site)
    assert failed.returncode == 5
    said = failed.stdout + failed.stderr
    assert "the site's slurmdbd answers" in said
    assert "sacctmgr: error: " in said
    assert site.ssh("head", CONTROLLER) == before

    # With the cluster's key again it goes on, and hears of what ran without it.
    started(site, key)
    assert applied(site).returncode == 0
    site.becomes("head", "scontrol show config | grep -oE 'KillWait += [0-9]+' | xargs", "KillWait = 31\n")
    in_sacct(site, meanwhile, "told|ada|research|COMPLETED\n")
    assert planned(site) == {}
