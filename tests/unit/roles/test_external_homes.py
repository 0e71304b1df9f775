"""Homes that the site has: what is made of them on nodes, and who is said to have none, with real accounts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.accounts import Account
from hpcforge.kinds.mounts import Mount
from hpcforge.plan.desired import Desired

SITE = load(Path(__file__).parent / "blueprints" / "homes_of_the_site.yaml").cluster
NODES = ("head", "w01", "w02")
APART = """
cp -a /etc/. "$0"
printf 'ada:x:42001:42001::/homes/ada:/bin/sh\\nbob:x:42002:42002::/homes/bob:/usr/sbin/nologin\\n' >>"$0/passwd"
printf 'ada:x:42001:\\nbob:x:42002:\\n' >>"$0/group"
mount --bind "$0" /etc
mount --bind "$1" /home
shift
exec "$@"
"""


@pytest.fixture(name="desired", scope="module")
def _desired(compiled: Callable[[Cluster], Desired]) -> Desired:
    return compiled(SITE)


def test_every_node_mounts_them_and_none_makes_any(desired: Desired) -> None:
    for node in NODES:
        roles = {one.role: one for one in desired.nodes[node]}
        (mount,) = roles["storage_client"].of(Mount)
        assert (mount.path, mount.what) == ("/homes", "nas.example.org:/export/homes")
        said = {one.name: (one.home, one.make_home, one.mount) for one in roles["users"].of(Account)}
        assert said == {
            "ops": ("/home/ops", True, ""),  # who lets hpcforge in needs no server
            "ada": ("/homes/ada", False, "/homes"),
            "bob": ("/homes/bob", False, "/homes"),
        }
        assert not {"shared_homes", "nfs_server"} & set(roles)


def test_one_node_says_who_has_none(desired: Desired) -> None:
    assert [node for node in NODES if "external_homes" in {one.role for one in desired.nodes[node]}] == ["head"]


@pytest.fixture
def said(desired: Desired, tmp_path: Path) -> Callable[[], tuple[int, str]]:
    """Runs the check beside an /etc that has the accounts, on homes in a folder of the test."""
    (role,) = (node for node in desired.nodes["head"] if node.role == "external_homes")
    (check,) = role.checks
    assert check.command[-2:] == ("/homes", "ada bob")
    (tmp_path / "homes").mkdir()
    (tmp_path / "etc").mkdir()
    command = ["/home" if word == "/homes" else word for word in check.command]

    def run() -> tuple[int, str]:
        words = ["unshare", "--mount", "sh", "-ec", APART, str(tmp_path / "etc"), str(tmp_path / "homes"), *command]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
def test_who_has_no_home_is_named_and_nothing_is_made(said: Callable[[], tuple[int, str]], tmp_path: Path) -> None:
    homes = tmp_path / "homes"
    assert said() == (1, "the site has made none for ada bob\n")
    assert list(homes.iterdir()) == []
    for name, uid in (("ada", 42001), ("bob", 0)):
        (homes / name).mkdir(mode=0o700)
        os.chown(homes / name, uid, uid)
    assert said() == (1, "not theirs to write to: bob\n")
    os.chown(homes / "bob", 42002, 42002)
    homes.chmod(0o711)
    assert said() == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
def test_what_is_there_and_no_folder_is_no_home(said: Callable[[], tuple[int, str]], tmp_path: Path) -> None:
    (tmp_path / "homes" / "ada").mkdir()
    os.chown(tmp_path / "homes" / "ada", 42001, 42001)
    (tmp_path / "homes" / "bob").touch()
    assert said() == (1, "the site has made none for bob\n")
