"""The scratch folder's commands, really run: where it is made, and what cannot be made to be followed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.cluster.storage import FileSystem
from hpcforge.verify import launches
from hpcforge.verify.step_output import scratch_of
from hpcforge.verify.submit import Launch, launch

Build = Callable[..., Cluster]
USER = 2002
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")


@pytest.fixture
def job(build: Build) -> Launch:
    cluster = build()
    assert cluster.acceptance
    return launch(cluster, cluster.acceptance.tests[:1], ("w1", "w2"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that the user can reach."""
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.geteuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o755)
    return tmp_path


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """What it does on a node, as the account of the tests."""
    words = command[command.index("/bin/sh") :]
    who = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    environment = {"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": "w1"}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, **who)  # type: ignore[call-overload,no-any-return]


def make(job: Launch, *parents: Path, name: str = "hpcforge-scratch.7.cafe") -> subprocess.CompletedProcess[str]:
    return run(launches.make(job, "7", name, list(map(str, parents)), shared=True))


def sticky(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o1777)
    return path


@as_root
def test_it_is_made_for_the_account_alone_and_removed(job: Launch, folder: Path) -> None:
    closed, open_ = folder / "closed", sticky(folder / "open")
    closed.mkdir(mode=0o755)
    ran = make(job, folder / "not there", closed, open_)
    assert ran.returncode == 0, ran.stderr
    assert scratch_of("".join(f"0: {line}\n" for line in ran.stdout.splitlines())) == 2
    made = open_ / "hpcforge-scratch.7.cafe"
    about = made.stat()
    assert (stat.S_IMODE(about.st_mode), about.st_uid) == (0o700, USER)
    (made / "inside").touch()
    (made / "outside").symlink_to(closed)
    assert run(launches.remove(job, "7", str(made), shared=True)).returncode == 0
    assert not made.exists()
    assert closed.exists()


@as_root
def test_a_folder_of_its_own_comes_first_and_what_others_can_change_is_not_taken(job: Launch, folder: Path) -> None:
    own, theirs, loose = folder / "own", folder / "theirs", folder / "loose"
    for path, uid, mode in ((own, USER, 0o700), (theirs, 2003, 0o1777), (loose, 0, 0o777)):
        path.mkdir()
        os.chown(path, uid, uid)
        path.chmod(mode)
    link = folder / "link"
    link.symlink_to(own)
    ran = make(job, theirs, loose, link)
    assert (ran.returncode, "none of these takes a folder" in ran.stderr) == (73, True)
    own.chmod(0o770)
    assert make(job, own).returncode == 73
    own.chmod(0o700)
    folder.chmod(0o777)  # others could put another in its place
    assert make(job, own).returncode == 73
    folder.chmod(0o755)
    assert make(job, theirs, own).returncode == 0
    assert [*own.iterdir()] == [own / "hpcforge-scratch.7.cafe"]


@as_root
@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_a_name_that_is_taken_is_not_used(job: Launch, folder: Path, kind: str) -> None:
    parent, target = sticky(folder / "open"), folder / "target"
    target.mkdir(mode=0o777)
    taken = parent / "hpcforge-scratch.7.cafe"
    {"folder": taken.mkdir, "link": lambda: taken.symlink_to(target), "file": taken.touch}[kind]()
    assert make(job, parent).returncode == 73
    assert [*target.iterdir()] == []


@as_root
def test_what_a_killed_run_left_a_day_ago_is_removed(job: Launch, folder: Path) -> None:
    parent = sticky(folder / "open")
    old, new, theirs = (parent / f"hpcforge-scratch.{name}" for name in ("old", "new", "theirs"))
    for path, uid, days in ((old, USER, 3), (new, USER, 0), (theirs, 2003, 3)):
        path.mkdir()
        os.chown(path, uid, uid)
        os.utime(path, (time.time() - days * 86400,) * 2)
    assert make(job, parent).returncode == 0
    assert sorted(path.name for path in parent.iterdir()) == [
        "hpcforge-scratch.7.cafe",
        "hpcforge-scratch.new",
        "hpcforge-scratch.theirs",
    ]


@as_root
def test_removal_follows_no_link(job: Launch, folder: Path) -> None:
    parent, target = sticky(folder / "open"), folder / "target"
    target.mkdir()
    os.chown(target, USER, USER)
    (target / "kept").touch()
    path = parent / "hpcforge-scratch.7.cafe"
    path.symlink_to(target)
    os.chown(path, USER, USER, follow_symlinks=False)
    assert run(launches.remove(job, "7", str(path), shared=True)).returncode == 0
    assert (target / "kept").exists()
    assert not path.is_symlink()


def test_names_are_words_and_not_read_by_a_shell(job: Launch, tmp_path: Path) -> None:
    parent = tmp_path / "a $(touch x) `id`; b"
    parent.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(parent, USER, USER)
    words = launches.make(job, "7", "hpcforge-scratch.7.cafe", [str(parent)], shared=False)
    assert words[-2:] == ["hpcforge-scratch.7.cafe", str(parent)]
    assert "--nodelist=w1,w2" in words


def test_shared_storage_is_what_all_nodes_mount(build: Build) -> None:
    def system(name: str, *on: str) -> FileSystem:
        return FileSystem(name, "nfs", "s:/srv", "nfs4", "", f"/{name}", on)

    cluster = replace(build(), storage=(system("some", "w1"), system("all", "w1", "w2")))
    assert launches.shared_parents(cluster, ["w1", "w2"], "tests") == ("/all/tests", "/all")
    assert launches.shared_parents(cluster, ["w1"], "tests") == ("/some/tests", "/all/tests", "/some", "/all")
