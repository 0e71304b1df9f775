"""hpcforge-private-tmp, which makes the folder of jobs' /tmp before slurmd takes it, where users may write, too."""

from __future__ import annotations

import os
import subprocess

import pytest

from hpcforge import bundled

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to play root and a user, and to mount")
PROGRAM = bundled.roles() / "slurm_private_tmp" / "private_tmp.sh"
# A disk of its own, what was done on it before, the program, and what there is then.
SCRIPT = 'mount -t tmpfs -o mode=1777 disk /mnt; eval "$1"; sh "$2" "/mnt/$3"; stat -c "%u %a %F" "/mnt/$3"'
AS_USER = "setpriv --reuid=65534 --regid=65534 --clear-groups"


def run(before: str, folder: str) -> subprocess.CompletedProcess[str]:
    command = ["unshare", "--mount", "sh", "-ec", SCRIPT, "sh", before, str(PROGRAM), folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("before", ["", "mkdir -p /mnt/of/jobs", "mkdir -m 1777 /mnt/of"])
def test_it_makes_what_is_missing(before: str) -> None:
    done = run(before, "of/jobs")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 755 directory\n", "")


@pytest.mark.parametrize("what", ["mkdir /mnt/jobs", "ln -s /etc /mnt/jobs", "touch /mnt/jobs"])
@pytest.mark.parametrize("folder", ["jobs", "jobs/more"])
def test_what_a_user_put_there_first_is_refused(what: str, folder: str) -> None:
    done = run(f"{AS_USER} {what}", folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"/mnt/{folder}: others than root could move or replace /mnt/jobs; move it away" in done.stderr


def test_a_folder_in_which_everybody_may_write_is_none_for_jobs() -> None:
    assert run("mkdir -m 1777 /mnt/jobs", "jobs").returncode == 1
