"""Homes that nodes share, with a quota, for users and people of a directory: `make test-vm`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

import pytest

from tests.support.vm_rehearsal import Rehearsal, blueprint, configured

pytestmark = pytest.mark.vm

NAME = f"test-vm-homes-{os.getpid()}"
BLUEPRINT = blueprint(
    "homes",
    """\
nodes:
  head: {functions: [head, login], hardware: with-drive, addresses: 10.77.0.10}
  w01:  {functions: [worker], hardware: rehearsal-node, addresses: 10.77.0.11}
  w02:  {functions: [worker], hardware: rehearsal-node, addresses: 10.77.0.12}
hardware:
  with-drive: {like: rehearsal-node, nvme: 1 x 4.3GB}
services:
  directory: {on: head}
slurm:
  ssh: jobs-only
  partitions:
    main: {nodes: "w[01-02]", default: true}
storage:
  disks: {kind: xfs, drives: 1 x 4.3GB, mount: /disks, on: head, quota_gib: 1, keep: true}
  homes: {kind: nfs, server: head, path: /disks/homes, mount: /homes, homes: true}
users:
  ada: {uid: 2001}
  bob: {uid: 2002}
rollout: {confirm_wait: 5min}
""",
)
GRACE = """\
dn: uid=grace,ou=people,dc=homes,dc=example,dc=org
objectClass: inetOrgPerson
objectClass: posixAccount
uid: grace
cn: Grace
sn: Hopper
uidNumber: 5001
gidNumber: 5001
homeDirectory: /etc/home

dn: cn=grace,ou=groups,dc=homes,dc=example,dc=org
objectClass: posixGroup
cn: grace
gidNumber: 5001
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """A server of homes, and two workers."""
    with configured(NAME, tmp_path_factory.mktemp("site"), BLUEPRINT, {}) as rehearsal:
        yield rehearsal


def test_a_job_finds_its_user_s_home(up: Rehearsal) -> None:
    shows = "cd; pwd; hostname >of_job; stat -c '%U %G %a' .; ls -A"
    said = up.user("ada", "srun", "-w", "w01", "sh", "-c", shows).splitlines()
    assert said[-6:] == ["/homes/ada", "ada ada 700", ".bash_logout", ".bashrc", ".profile", "of_job"]
    assert up.on("w01", "findmnt -no FSTYPE /homes") == "nfs4\n"
    shows = "cd; pwd; stat -c '%U %G %a' . of_job; cat of_job; findmnt -no FSTYPE /homes; hostname"
    said = up.user("ada", "srun", "-w", "w02", "sh", "-c", shows).splitlines()
    assert said[-6:] == ["/homes/ada", "ada ada 700", "ada ada 644", "w01", "nfs4", "w02"]
    assert up.user("ada", "sh", "-c", "cd; cat of_job") == "w01\n"  # the server binds its own
    assert up.on("head", "sudo stat -c '%U %a' /disks/homes /disks/homes/ada/of_job") == "root 755\nada 644\n"


def test_a_client_s_root_and_other_users_get_nowhere(up: Rehearsal) -> None:
    assert "Permission denied" in up.on("w01", "sudo mkdir /homes/more 2>&1 || :")
    assert "Permission denied" in up.on("w01", "sudo ls /homes/ada 2>&1 || :")
    assert "Permission denied" in up.user("bob", "srun", "-w", "w01", "sh", "-c", "ls /homes/ada; echo >/homes/mine")
    assert up.on("head", "ls /disks/homes") == "ada\nbob\n"


def test_with_a_job_her_session_there_begins_at_home_by_a_key_that_is_there(up: Rehearsal) -> None:
    makes = (
        "mkdir -m 700 .ssh; cd .ssh; ssh-keygen -q -t ed25519 -N '' -f id_ed25519; cp id_ed25519.pub authorized_keys"
    )
    up.user("ada", "sh", "-c", f"cd; {makes}")
    assert "you have no active jobs on this node" in up.to_worker("ada", "pwd")
    with up.job("--wrap=sleep 900"):
        assert up.to_worker("ada", "pwd; cat of_job").endswith("/homes/ada\nw01\n")


def test_somebody_of_the_directory_who_never_logged_in_has_one_on_workers(up: Rehearsal) -> None:
    up.on("head", f"sudo ldapadd -Q -Y EXTERNAL -H ldapi:/// <<'END'\n{GRACE}END")
    up.becomes("head", "sudo stat -c '%u %g %a' /disks/homes/grace 2>/dev/null || :", "5001 5001 700")
    up.becomes("w01", "id -un 5001 2>/dev/null || :", "grace")
    shows = "cd; pwd; touch of_grace; stat -c %U of_grace; ls -A .profile"
    said = up.user("grace", "srun", "-w", "w01", "sh", "-c", shows)
    assert said.endswith("/homes/grace\ngrace\n.profile\n")
    assert "pam_mkhomedir" not in up.on("w01", "cat /etc/pam.d/common-session")


def test_a_home_that_is_somebody_else_s_is_named(up: Rehearsal) -> None:
    up.on("head", "sudo chown root /disks/homes/bob")
    try:
        assert "/disks/homes/bob belongs to user 0" in up.run("plan", up.blueprint, expect=2)
    finally:
        up.on("head", "sudo chown bob /disks/homes/bob")
    up.run("plan", up.blueprint)


# Nearly a GiB without writing it, which takes an emulated machine minutes, and what is written goes over it.
FILL = "cd; fallocate -l 1000M big && dd if=/dev/zero of=much bs=1M count=40 conv=fsync && echo all; rm -f big much"


def test_a_user_over_her_quota_cannot_write_on_a_worker_and_sees_why(up: Rehearsal) -> None:
    said = up.user("ada", "srun", "-w", "w01", "sh", "-c", FILL)
    assert "Disk quota exceeded" in said
    assert "all" not in said.splitlines()
    hers = up.user("ada", "srun", "-w", "w01", "quota", "-w", "-f", "/homes").splitlines()[-1].split()
    # The machine's own address: another network where the blueprint's is taken on this host.
    assert hers[0] == f"{up.lab.node('head').address}:/disks/homes"
    assert hers[3] == "1048576"  # KiB
    others = up.user("grace", "srun", "-w", "w01", "quota", "-w", "-f", "/homes").splitlines()[-1].split()
    assert others[3] == "1048576"  # nobody has to be told of her


def test_who_leaves_keeps_the_home_and_who_comes_gets_one(up: Rehearsal) -> None:
    changed = BLUEPRINT.replace("bob: {uid: 2002}", "eve: {uid: 2003}").replace("quota_gib: 1, ", "")
    up.blueprint.write_text(changed)
    said = up.run("plan", up.blueprint, expect=2)
    assert "account bob: lock; its home stays" in said
    assert "~ volume disks  quota of a user 1 GiB -> none" in said
    up.run("apply", up.blueprint, "--yes")
    assert "all" in up.user("ada", "srun", "-w", "w01", "sh", "-c", FILL).splitlines()
    assert up.on("head", "sudo stat -c '%u %n' /disks/homes/bob/.profile") == "2002 /disks/homes/bob/.profile\n"
    said = up.user("eve", "srun", "-w", "w01", "sh", "-c", f"cd; pwd; {shlex.join(['stat', '-c', '%U', '.'])}")
    assert said.endswith("/homes/eve\neve\n")
    up.run("plan", up.blueprint)


RETRIED = "hpcforge-homes.timer homes.timer disks.timer"  # who would mount it themselves


def test_a_volume_that_is_mounted_late_by_whomever_is_served_again(up: Rehearsal) -> None:
    what = up.on("head", "systemctl show -P What disks.mount").strip()
    try:
        up.on("head", f"sudo systemctl stop {RETRIED} disks.mount")
        assert up.on("head", "systemctl is-active hpcforge-served nfs-server || :") == "inactive\ninactive\n"
        up.on("head", f"sudo mount -o uquota,nosuid,nodev {shlex.quote(what)} /disks")
        up.becomes("head", "systemctl is-active hpcforge-served nfs-server || :", "active\nactive")
    finally:
        up.on("head", f"sudo systemctl start {RETRIED}")
    up.becomes("head", "systemctl is-active homes.mount || :", "active")
    assert up.user("ada", "srun", "-w", "w01", "sh", "-c", "cd; cat of_job").endswith("w01\n")
