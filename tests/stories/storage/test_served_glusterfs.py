"""examples/glusterfs: two nodes serve and a third arbitrates, from nothing to gone."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator

import pytest

from hpcforge.lab import lab as labs
from hpcforge.lab.kinds import kind_of
from tests.support.site import REPOSITORY, Site

pytestmark = [pytest.mark.lab, pytest.mark.shared_storage]

BLUEPRINT = (REPOSITORY / "examples" / "glusterfs" / "blueprint.yaml").read_text()
TOGETHER = "volumes: [projects]"
VOLUME = "sudo gluster --mode=script volume info projects"
STOP = "stop projects force 2>&1 || :"
# GlusterFS's handshake (RPC), with nothing in it: whom a brick takes for nobody gets no answer.
ASKS = """
import socket
with socket.create_connection(('10.79.0.11', PORT), 5) as server:
    server.settimeout(5)
    server.sendall(bytes.fromhex('8000002800000001000000000000000200dbb4a90000000200000001') + bytes(16))
    print('denied' if server.recv(100)[12:16] == bytes([0, 0, 0, 1]) else 'heard')
"""
MEANWHILE = "echo meanwhile >/projects/of_ada; mkdir /projects/new; echo new >/projects/new/file"
LEFT = "ls -d /projects /etc/systemd/system/projects.* 2>/dev/null || :"
HEALED = "sudo gluster --mode=script volume heal projects info | grep -c '^Number of entries: 0$' || :"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(REPOSITORY / "examples" / "glusterfs", folder / "blueprints")
    (folder / "blueprints" / "blueprint.yaml").rename(folder / "blueprints" / "rehearsal.yaml")
    here = Site(folder, f"test-served-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


def test_one_apply_makes_the_volume_and_mounts_it(site: Site) -> None:
    begun = time.monotonic()
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    print(f"the first apply: {time.monotonic() - begun:.0f} s")
    assert [site.ssh(worker, "findmnt -n -o FSTYPE /projects") for worker in ("w01", "w02")] == ["fuse.glusterfs\n"] * 2
    made = site.ssh("s01", VOLUME)
    assert "Number of Bricks: 1 x (2 + 1) = 3" in made
    assert "auth.allow: 10.79.0.14,10.79.0.15" in made
    assert site.cli("plan", "BLUEPRINT").returncode == 0


def test_a_file_of_a_job_is_read_on_another_node_and_is_its_user_s(site: Site) -> None:
    site.becomes("head", "sinfo -h -o '%T %D'", "idle 2\n")
    site.ssh("head", "cd / && sudo -u ada srun -w w01 sh -c 'umask 077; hostname >/projects/of_ada'")
    assert site.ssh("head", "cd / && sudo -u ada srun -w w02 cat /projects/of_ada") == "w01\n"
    assert site.ssh("w02", "sudo -u ada stat -c '%U %a' /projects/of_ada") == "ada 600\n"
    assert site.ssh("w02", "sudo touch /projects/of_root && stat -c %U /projects/of_root") == "nobody\n"
    for server in ("s01", "s02"):
        assert site.ssh(server, "sudo cat /srv/projects/brick/of_ada") == "w01\n"
    assert site.ssh("head", "sudo stat -c %s /srv/projects/arbiter-1/of_ada") == "0\n"
    assert site.ssh("s01", "ls /srv/projects 2>/dev/null || echo refused") == "refused\n"


def test_users_cannot_speak_to_servers_themselves(site: Site) -> None:
    """Who speaks to a brick says whose files it asks for: only root's ports are answered, and no commands from afar."""
    status = "sudo gluster --mode=script --xml volume status projects"
    port = site.ssh("s01", rf"{status} | sed -n 's:.*<port>\([0-9]*\)<.*:\1:p' | head -1").strip()
    asks = f'python3 -c "{ASKS.replace("PORT", port)}"'
    assert site.ssh("w01", f"sudo -u ada {asks}") == "denied\n"
    site.ssh("s02", f"sudo -u ada gluster --log-file=/dev/null --remote-host=10.79.0.11 --mode=script volume {STOP}")
    assert "Status: Started" in site.ssh("s01", VOLUME)


def test_what_somebody_changed_is_found_and_put_back(site: Site) -> None:
    site.ssh("s02", "sudo gluster --mode=script volume set projects auth.allow '*'")
    site.ssh("s02", "sudo gluster --mode=script volume set projects server.root-squash off")
    drifted = site.cli("plan", "BLUEPRINT")
    assert drifted.returncode == 2
    assert "projects: server.root-squash is off, to be on" in drifted.stdout
    assert "projects: auth.allow is *, to be 10.79.0.14,10.79.0.15" in drifted.stdout
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert site.cli("plan", "BLUEPRINT").returncode == 0


def test_a_server_is_lost_and_comes_back(site: Site) -> None:
    lab = labs.load(site.lab)
    assert lab is not None
    kind_of(lab).stop(lab, lab.node("s01"), graceful=False)  # the one that clients asked what is where
    begun = time.monotonic()
    assert site.ssh("w02", "sudo -u ada cat /projects/of_ada") == "w01\n"
    print(f"read while a server is lost: {time.monotonic() - begun:.0f} s")
    site.ssh("w01", f"sudo -u ada sh -c '{MEANWHILE}'")
    away = site.cli("apply", "BLUEPRINT", "--yes")
    assert away.returncode == 4
    assert "s01" in away.stdout
    site.ssh("w02", "sudo systemctl stop projects.mount")  # the timer, or who is first, mounts it from the other
    site.becomes("w02", "sudo -u ada cat /projects/of_ada || :", "meanwhile\n")

    kind_of(lab).start(lab, lab.node("s01"))
    site.becomes("s02", HEALED, "3\n")
    site.becomes("s01", "sudo cat /srv/projects/brick/of_ada /srv/projects/brick/new/file || :", "meanwhile\nnew\n")
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert site.cli("plan", "BLUEPRINT").returncode == 0


def test_a_folder_with_other_files_is_left_alone(site: Site) -> None:
    site.ssh("s02", "sudo install -d -m 755 /srv/second && echo theirs | sudo tee /srv/second/theirs >/dev/null")
    site.blueprint.write_text(BLUEPRINT.replace(TOGETHER, "volumes: [projects, second]"))
    planned = site.cli("plan", "BLUEPRINT")
    assert "/srv/second has other files: theirs" in planned.stdout + planned.stderr
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 5
    assert site.ssh("s02", "stat -c %a /srv/second; cat /srv/second/theirs") == "755\ntheirs\n"
    assert "second" not in site.ssh("s01", "sudo gluster --mode=script volume list")
    site.blueprint.write_text(BLUEPRINT)


def test_it_leaves_the_blueprint_and_keeps_its_files(site: Site) -> None:
    site.blueprint.write_text(
        BLUEPRINT.replace(TOGETHER, "volumes: []").replace("{mounts: [/projects]}", "{mounts: []}")
    )
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "/srv/projects" in done.stdout
    for worker in ("w01", "w02"):
        site.becomes(worker, f"{LEFT}; pgrep -a gluster || :", "")
    for server in ("s01", "s02", "head"):
        site.becomes(server, "pgrep -a gluster || :", "")
    assert site.ssh("s02", "sudo cat /srv/projects/brick/of_ada") == "meanwhile\n"
    assert site.cli("plan", "BLUEPRINT").returncode == 0
    site.blueprint.write_text(BLUEPRINT)
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert site.ssh("w01", "sudo -u ada cat /projects/of_ada") == "meanwhile\n"
