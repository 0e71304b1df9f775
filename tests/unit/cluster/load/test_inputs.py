"""Which commit a run is of: all that the blueprint was read with is in it, or it is said to be changed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.load.loaded import inputs
from hpcforge.host.commit import commit_of
from hpcforge.plan.observation import Observation
from hpcforge.plan.roster import Roster
from hpcforge.run.make_plan import remark
from hpcforge.run.site import Goal, Site
from hpcforge.run.survey import Survey
from tests.support.three_nodes import DESIRED

BLUEPRINT = """schema: 1
name: small
domain: small.example.org
access: {user: ops}
role_folders: [our-roles]
nodes:
  head: {functions: [head], hardware: generic-1u, addresses: 10.1.0.1}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, addresses: "10.1.0.[11-12]"}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  reserve: {cores: 1, memory_gib: 1}
  partitions: {main: {nodes: all, default: true}}
users:
  ada: {uid: 2001, keys: [keys/ada.pub]}
acceptance: {run_as: ada, folders: [our-tests], tests: {allreduce: {nodes: all}}}
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5EFi7wCJdkTCRKBYtOQpnTFC1+WlHnOSpEbbYuH8kp ada\n"


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *who, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site's repository: a blueprint, a role and a smoke test of its own, and a file of keys."""
    (tmp_path / "site.yaml").write_text(BLUEPRINT)
    compiled = shutil.ignore_patterns("__pycache__")
    role, test = bundled.root() / "blueprints" / "site_roles" / "motd", bundled.smoke_tests() / "memory_copy"
    shutil.copytree(role, tmp_path / "our-roles" / "motd", ignore=compiled)
    shutil.copytree(test, tmp_path / "our-tests" / "our_copy", ignore=compiled)
    (tmp_path / "our-tests" / "our_copy" / "memory_copy.py").rename(tmp_path / "our-tests" / "our_copy" / "our_copy.py")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "ada.pub").write_text(KEY)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "site")
    return tmp_path


def dirty(site: Path) -> bool:
    loaded = load(site / "site.yaml")
    commit = commit_of(*inputs(loaded))
    assert commit is not None
    return commit.dirty


def test_a_clean_site_is_clean(site: Path) -> None:
    (site / "notes.txt").write_text("not read")
    assert not dirty(site)


@pytest.mark.parametrize(
    "path",
    ["our-roles/motd/role.yaml", "our-roles/motd/new", "our-tests/our_copy/test.yaml", "keys/ada.pub", "site.yaml"],
)
def test_whatever_is_read_and_changed_is_seen(site: Path, path: str) -> None:
    """History had a clean commit although a tracked role was another one."""
    with (site / path).open("a") as file:
        file.write("# changed\n")
    assert dirty(site)


def test_the_shipped_roles_count_where_the_blueprint_lies_beside_them() -> None:
    blueprint = bundled.root() / "blueprints" / "rehearsal.yaml"
    read = inputs(load(blueprint))
    assert (bundled.roles() in read) == (bundled.root() / ".git").exists()
    assert read[0] == blueprint


def test_history_has_the_commit_as_changed(site: Path) -> None:
    """What a run writes into the history is what `remark` returns."""
    with (site / "our-roles/motd/role.yaml").open("a") as file:
        file.write("# changed\n")
    loaded = load(site / "site.yaml")
    silent = Survey(Goal({}, DESIRED), {}, Observation("head"), Roster(), (), {})
    commit = remark(Site(loaded, loaded.cluster, site / "key", None), silent, lambda _: None)
    assert commit is not None
    assert commit.dirty
