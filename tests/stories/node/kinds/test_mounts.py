"""Mounts on a real node: a file system in memory, and a directory at a second place."""

import pytest

from tests.stories.node.kinds.conftest import Life

SCRATCH = {"path": "/srv/fast-scratch", "what": "tmpfs", "type": "tmpfs", "options": "size=1M,mode=1777"}
WAS = {word: SCRATCH[word] for word in ("what", "type", "options")}


@pytest.mark.lab
def test_a_mount_comes_changes_and_goes_with_its_directory(life: Life) -> None:
    shell = life.node.shell
    assert life.found(SCRATCH) == [{"path": "/srv/fast-scratch", "exists": False}]
    assert life.put(SCRATCH) == {"/srv/fast-scratch": "mounted"}
    assert "size=1024k" in shell("findmnt -no OPTIONS /srv/fast-scratch")
    shell("sudo umount /srv/fast-scratch")
    assert life.found(SCRATCH) == [{"path": "/srv/fast-scratch", "exists": False, "put": True, **WAS}]
    life.put({**SCRATCH, "options": "size=2M"})
    assert "size=2048k" in shell("findmnt -no OPTIONS /srv/fast-scratch")
    life.remove()
    assert (
        shell("findmnt -n /srv/fast-scratch; ls -d /srv/fast-scratch; ls /etc/systemd/system/*scratch*", check=False)
        == ""
    )


@pytest.mark.lab
def test_what_would_be_hidden_is_in_the_way(life: Life) -> None:
    assert "/etc/apt is not an empty directory" in life.refused({**SCRATCH, "path": "/etc/apt"})
    assert "another file system is mounted at /proc" in life.refused({**SCRATCH, "path": "/proc"})
    assert "one word each" in life.refused({**SCRATCH, "options": "size=1M nosuid"})


@pytest.mark.lab
def test_one_whose_server_is_away_fails_soon_and_comes_by_itself(life: Life) -> None:
    """The server is one of two folders that are laid over each other, and is not there for a while."""
    shell = life.node.shell
    wanted = {
        "path": "/projects",
        "what": "overlay",
        "type": "overlay",
        "options": "lowerdir=/srv/theirs:/etc/apt",
        "retry_s": 2,
    }
    said = life.refused(wanted)
    assert "`systemctl start projects.mount`" in said
    assert "mount: /projects: " in said  # what mount(8) says
    was = {word: wanted[word] for word in ("what", "type", "options")}
    assert life.found(wanted) == [{"path": "/projects", "exists": False, "put": False, **was}]
    waits = "systemctl list-dependencies --all --plain --reverse projects.mount"
    assert not {"multi-user.target", "remote-fs.target", "local-fs.target"} & set(shell(waits).split())
    shell("sudo mkdir -p /srv/theirs && sudo touch /srv/theirs/there")
    shell("until [ -e /projects/there ]; do sleep 0.2; done")  # the timer's doing
    assert life.put(wanted) == {}
    shell("sudo umount /projects; until [ -e /projects/there ]; do sleep 0.2; done")
    assert life.put({**wanted, "options": f"{wanted['options']},noexec"}) == {"/projects": "mounted"}
    assert "noexec" in shell("findmnt -no OPTIONS /projects")
    shell("systemd-analyze verify projects.mount projects.timer")
    assert life.put({**wanted, "retry_s": 0}) == {"/projects": "mounted"}
    assert "projects.timer" not in shell("ls /etc/systemd/system")
    life.remove()
    assert shell("ls -d /projects; ls /etc/systemd/system/*projects*; ls /srv/theirs", check=False).split() == ["there"]


DIES = """#!/usr/bin/python3
import os, subprocess, sys
if os.path.exists("/srv/lives"):
    sys.exit(subprocess.call(["mount", "-i", "-t", "tmpfs", "tmpfs", sys.argv[2]]))
fuse = os.open("/dev/fuse", os.O_RDWR)
said = f"fd={fuse},rootmode=40000,user_id=0,group_id=0"
sys.exit(subprocess.call(["mount", "-i", "-t", "fuse", "-o", said, "dies", sys.argv[2]], pass_fds=[fuse]))
"""


@pytest.mark.lab
def test_one_whose_program_has_ended_is_mounted_anew(life: Life) -> None:
    """By a program that mounts and ends; to systemd, which has seen the mount, all is well."""
    shell, place, name = life.node.shell, "/a-b/c d", r"a\x2db-c\x20d"
    shell("sudo tee /sbin/mount.dies >/dev/null; sudo chmod 755 /sbin/mount.dies; sudo touch /srv/lives", stdin=DIES)
    wanted = {"path": place, "what": "dies", "type": "dies", "options": "rw", "retry_s": 2, "fuse": True}
    assert life.put(wanted) == {place: "mounted"}
    shell(f"sudo systemctl stop '{name}.timer' '{name}.mount'; sudo rm /srv/lives; sudo systemctl start '{name}.mount'")
    assert "endpoint is not connected" in shell(f"sudo ls '{place}' 2>&1 || :")
    assert shell(f"systemctl is-active '{name}.mount'") == "active\n"
    shell(f"sudo touch /srv/lives; sudo systemctl start '{name}.timer'")
    life.node.until(f"mountpoint -q '{place}'")
    shell(f"sudo umount '{place}'")
    life.node.until(f"mountpoint -q '{place}'")  # as any other
    assert life.found(wanted) == []
    shell(f"systemd-analyze verify 'hpcforge-mount@{name}.service'")
    assert shell(f"sudo journalctl --no-pager -q -u 'hpcforge-mount@{name}.service'") == ""
    assert life.put({**wanted, "fuse": False}) == {place: "mounted"}
    assert "hpcforge-mount@" not in shell("ls /etc/systemd/system")
    life.put(wanted)
    life.remove()
    assert shell("ls -d /a-b; ls /etc/systemd/system | grep -e a.x2db -e hpcforge-mount", check=False) == ""
