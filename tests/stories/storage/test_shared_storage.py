"""Storage that nodes really share, by roles of examples/: GlusterFS and buckets, of the site."""

from __future__ import annotations

import contextlib
import os
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs
from hpcforge.run.records.history import Copy
from tests.support import object_server
from tests.support.file_server import copy_roles
from tests.support.site import BECOMES_S, Site

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
role_folders: [glusterfs, object_storage]
roles:
  glusterfs_client: {external: ["head:/projects"]}
  slurm_health: {mounts: [/projects]}
users: {ada: {uid: 2001}}
"""
MOUNTS = BLUEPRINT[BLUEPRINT.index("roles:\n") : BLUEPRINT.index("users:")]
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
    for example in ("glusterfs", "object_storage"):
        copy_roles(example, folder / "blueprints")
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
    assert "failed      glusterfs_client: " in done.stdout
    site.becomes("head", "sinfo -h -o '%t %D'", "drain 2\n")  # no job before its files are there
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
    assert "glusterfs_client" in away.stdout
    assert site.ssh("w01", "id -un") == "ops\n"
    site.ssh("w02", "sudo umount -l /projects")
    site.ssh("head", "sudo systemctl start glusterd && sudo gluster --mode=script volume start projects")
    for worker in ("w01", "w02"):
        site.becomes(worker, "sudo -u ada cat /projects/of_ada 2>/dev/null || :", "w01\n")
    site.becomes("head", "sinfo -h -o '%T %D'", "idle 2\n")
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0


def test_a_mount_that_leaves_the_blueprint_leaves_the_nodes(site: Site) -> None:
    site.blueprint.write_text(BLUEPRINT.replace(MOUNTS, ""))
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert site.ssh("w01", "ls -d /projects /etc/systemd/system/*projects.* 2>/dev/null || :") == ""
    assert site.ssh("head", "sudo cat /srv/brick/of_ada") == "w01\n"


BUCKET = f"""roles:
  slurm_health: {{mounts: [/objects/datasets]}}
  object_storage:
    folder: /objects
    buckets: ['{object_server.ADDRESS}']
"""
MOUNTED = "mountpoint -q /objects/datasets && echo mounted || echo not"
IDLE = ("sinfo -h -o '%T %D'", "idle 2\n")
READS = ("sudo -u ada cat /objects/datasets/of_ada 2>/dev/null || :", "w01\n")
BOOT = "cat /proc/sys/kernel/random/boot_id"
ORDER = """systemctl show -P ActiveEnterTimestampMonotonic objects-datasets.mount
systemctl show -P ExecMainStartTimestampMonotonic slurmd.service"""  # microseconds since the start


def has_key(file: Path) -> bool:
    return file.is_file() and object_server.KEY.encode() in file.read_bytes()


def restarted(site: Site, node: str) -> None:
    """It was, and people can log in."""
    before = site.ssh(node, BOOT).strip()
    site.ssh(node, "sudo systemd-run --quiet --on-active=1 systemctl reboot")
    found, until = labs.load(site.lab), time.monotonic() + BECOMES_S
    assert found is not None
    argv = labs.ssh_argv(found, node, ["sh", "-c", f"[ $({BOOT}) != {before} ]"])
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):  # a login on a node that goes down meanwhile
            if subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=30, check=False).returncode == 0:
                return
        assert time.monotonic() < until
        time.sleep(0.5)


def test_a_wrong_key_is_named_and_the_right_one_mounts_the_bucket(site: Site) -> None:
    authority = object_server.install(site)
    object_server.asked(site, "datasets -X PUT")
    trusted = f"    ca: |\n{textwrap.indent(authority, ' ' * 6)}"
    site.blueprint.write_text(BLUEPRINT.replace(MOUNTS, f"{BUCKET}{trusted}"))
    wrong = object_server.KEYS.replace(object_server.KEY, "not-the-key")
    assert site.cli("secrets", "set", "BLUEPRINT", "s3_keys", said=wrong).returncode == 0
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 5
    assert f"{object_server.ADDRESS}: 403 SignatureDoesNotMatch: the key is wrong" in done.stdout
    assert site.ssh("w01", MOUNTED) == "not\n"

    assert site.cli("secrets", "set", "BLUEPRINT", "s3_keys", said=object_server.KEYS).returncode == 0
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert [site.ssh(worker, MOUNTED) for worker in ("w01", "w02")] == ["mounted\n"] * 2
    assert site.cli("plan", "BLUEPRINT").returncode == 0


def test_an_object_of_a_job_is_read_on_another_node_and_is_its_user_s(site: Site) -> None:
    site.becomes("head", *IDLE)
    site.ssh("head", "cd / && sudo -u ada srun -w w01 sh -c 'umask 077; hostname >/objects/datasets/of_ada'")
    site.becomes("head", "cd / && sudo -u ada srun -w w02 cat /objects/datasets/of_ada || :", "w01\n")
    assert site.ssh("w02", "sudo -u ada stat -c '%U %a' /objects/datasets/of_ada") == "ada 600\n"
    assert object_server.asked(site, "datasets/of_ada") == "w01\n"  # as it is to any tool of S3


def test_a_node_that_starts_has_its_bucket_before_slurmd(site: Site) -> None:
    restarted(site, "w02")
    site.becomes("w02", "systemctl is-active slurmd.service || :", "active\n")
    mounted, slurmd = (int(line) for line in site.ssh("w02", ORDER).split())
    print(f"slurmd began {(slurmd - mounted) / 1e6:.2f} s after the bucket was mounted")
    assert 0 < mounted < slurmd
    site.becomes("w02", *READS)
    site.becomes("head", *IDLE)


def test_a_node_that_starts_without_the_server_takes_no_jobs_until_it_is_back(site: Site) -> None:
    site.ssh("head", "sudo systemctl stop swift-proxy")
    restarted(site, "w02")
    site.becomes(
        "head", "sinfo -hn w02 -o '%T %E'", "drained hpcforge-health: nothing is mounted at /objects/datasets\n"
    )
    assert site.ssh("w02", f"systemctl is-active slurmd.service; {MOUNTED}") == "active\nnot\n"
    site.ssh("head", "sudo systemctl start swift-proxy")
    site.becomes("w02", *READS)  # by itself
    site.becomes("head", *IDLE)


def test_an_s3fs_that_was_killed_is_begun_again(site: Site) -> None:
    site.ssh("w01", "sudo pkill -9 -x s3fs && ! ls /objects/datasets")
    site.becomes("w01", *READS)


def test_its_key_is_in_one_file_of_root_s_and_in_nothing_else(site: Site) -> None:
    seen = [site.cli("plan", "BLUEPRINT", "--json"), site.cli("status", "BLUEPRINT", "--json")]
    assert not [one.args for one in seen if object_server.KEY in one.stdout + one.stderr]
    pattern = f"{object_server.KEY[:-1]}[{object_server.KEY[-1]}]"  # which what sudo writes down of this does not match
    everywhere = f"sudo grep -rls -- '{pattern}' /etc /home /root /run /tmp /var || :"
    assert site.ssh("w01", everywhere) == "/etc/hpcforge/s3_keys\n"
    assert site.ssh("w01", "stat -c '%a %U %G' /etc/hpcforge/s3_keys") == "400 root root\n"
    running = "sudo sh -c 'cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; cat /proc/self/mounts'"
    assert object_server.KEY not in site.ssh("w01", f"{running} | tr '\\0' ' '")
    assert object_server.KEY not in site.ssh("w01", "sudo journalctl --no-pager")
    # Nor in what is kept of runs, there and here.
    assert site.cli("status", "BLUEPRINT", "--history").returncode == 0
    assert site.ssh("head", f"sudo grep -rls -- '{pattern}' /var/lib/hpcforge || :") == ""
    kept = (site.folder, Copy.of(site.lab).folder.parent)
    assert not [file for folder in kept for file in folder.rglob("*") if has_key(file)]


def test_a_bucket_s_server_does_not_answer_and_holds_nobody_up(site: Site) -> None:
    site.ssh("head", "sudo systemctl kill --signal=STOP swift-proxy")  # it takes connections, and says nothing
    for verb, code in ((["plan", "BLUEPRINT"], 2), (["apply", "BLUEPRINT", "--yes"], 5)):
        begun = time.monotonic()
        away = site.cli(*verb)
        took_s = time.monotonic() - begun
        print(f"{verb[0]} while the object server says nothing: {took_s:.0f} s")
        assert away.returncode == code
        assert f"{object_server.ADDRESS}: no answer within 8 s" in away.stdout
    assert site.ssh("w01", f"timeout 20 sudo -iu ada id -un; {MOUNTED}") == "ada\nmounted\n"
    site.ssh("head", "sudo systemctl kill --signal=CONT swift-proxy")
    for worker in ("w01", "w02"):
        site.becomes(worker, *READS)
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert site.cli("plan", "BLUEPRINT").returncode == 0


def test_a_bucket_that_leaves_the_blueprint_keeps_its_objects(site: Site) -> None:
    site.blueprint.write_text(BLUEPRINT.replace(MOUNTS, ""))
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    what = "/objects/datasets /etc/systemd/system/*objects.* /etc/hpcforge/s3_* /usr/sbin/mount.hpcforge_s3"
    for worker in ("w01", "w02"):
        site.becomes(worker, f"ls -d {what} 2>/dev/null; pgrep -a s3fs; sudo systemctl list-units -q '*objects*'", "")
    site.becomes("head", *IDLE)
    assert object_server.asked(site, "datasets/of_ada") == "w01\n"
