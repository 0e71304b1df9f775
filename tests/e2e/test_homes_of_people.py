"""Homes are made for users and people of a directory, by the role alone: containers have no NFS to share them by."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Site

pytestmark = pytest.mark.lab

BLUEPRINT = """\
schema: 1
name: homes
domain: homes.example.org
inventory: {lab: nspawn}
access: {user: ops, become: sudo}
nodes:
  head: {functions: [head, worker], hardware: rehearsal-node, addresses: 10.78.0.10}
networks: {cluster: {cidr: 10.78.0.0/24}}
services: {dns: {on: head}, time: {on: head}, directory: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  partitions: {main: {nodes: head, default: true}}
storage:
  homes: {kind: nfs, server: head, path: /srv/homes, mount: /homes, homes: true}
roles:
  sssd: {allowed_groups: [vision]}
users: {ada: {uid: 2001}, bob: {uid: 2002}}
"""
BASE = "dc=homes,dc=example,dc=org"
PERSON = """dn: uid={0},ou=people,{base}
objectClass: inetOrgPerson
objectClass: posixAccount
uid: {0}
cn: {0}
sn: {0}
uidNumber: {1}
gidNumber: 6000
homeDirectory: /etc/home
"""
GROUP = """dn: cn={0},ou=groups,{base}
objectClass: posixGroup
cn: {0}
gidNumber: {1}
{members}
"""
MANY = 600  # more than a page of the search, and than a server of OpenLDAP's gives by itself
BEFORE_NFS = ("base", "names", "users", "time", "time_server", "directory_server", "ldap_client", "sssd")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "blueprints").mkdir()
    here = Site(folder, f"test-homes-{os.getpid()}")
    here.blueprint.write_text(BLUEPRINT)
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


def apply(site: Site, *roles: str) -> None:
    only = [word for role in roles for word in ("--only", role)]
    assert site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none", *only).returncode == 0


def test_everybody_gets_a_home_by_what_the_node_says_of_her(site: Site) -> None:
    apply(site, *BEFORE_NFS)
    assert site.ssh("head", "getent passwd ada; ls /home; ls -d /homes 2>&1 || :").splitlines() == [
        "ada:x:2001:2001::/homes/ada:/bin/bash", "ops", "ls: cannot access '/homes': No such file or directory",
    ]  # fmt: skip
    people = [PERSON.format(f"p{number:03}", 5000 + number, base=BASE) for number in range(MANY)]
    members = "\n".join(f"memberUid: p{number:03}" for number in range(MANY - 1))
    groups = [
        GROUP.format("staff", 6000, base=BASE, members=""),
        GROUP.format("vision", 6001, base=BASE, members=members),
    ]
    text = "\n".join([*people, *groups])
    site.ssh("head", f"sudo ldapadd -Q -Y EXTERNAL -H ldapi:/// >/dev/null <<'END'\n{text}\nEND")
    site.ssh("head", "sudo install -d -m 755 /srv/homes")  # as the role of the server would
    apply(site, "shared_homes")
    assert site.ssh("head", "sudo stat -c '%n %U %a' /srv/homes/ada /srv/homes/bob/.profile").splitlines() == [
        "/srv/homes/ada ada 700", "/srv/homes/bob/.profile bob 644",
    ]  # fmt: skip
    site.becomes("head", "systemctl show --property=ActiveState --value hpcforge-homes", "inactive\n")
    site.becomes("head", "ls /srv/homes | wc -l", f"{2 + MANY - 1}\n")  # one is in no group that may log in
    last = "sudo stat -c '%u %g %a' /srv/homes/p598; ls -d /srv/homes/p599 2>&1 || :"
    assert site.ssh("head", last).splitlines() == [
        "5598 6000 700", "ls: cannot access '/srv/homes/p599': No such file or directory",
    ]  # fmt: skip
    assert "pam_mkhomedir" not in site.ssh("head", "cat /etc/pam.d/common-session")


def test_a_second_plan_has_nothing_to_do_and_names_a_home_that_is_somebody_else_s(site: Site) -> None:
    assert site.cli("plan", "BLUEPRINT", "--only", "shared_homes").returncode == 0
    site.ssh("head", "sudo chown 2002 /srv/homes/ada")
    said = site.cli("plan", "BLUEPRINT", "--only", "shared_homes")
    assert said.returncode == 2
    assert "ada: /srv/homes/ada belongs to user 2002, and she is 2001; nothing of it was changed" in said.stdout
    site.ssh("head", "sudo chown 2001 /srv/homes/ada")


def test_who_leaves_keeps_hers(site: Site) -> None:
    site.blueprint.write_text(BLUEPRINT.replace(", bob: {uid: 2002}", ", eve: {uid: 2003}"))
    assert "account bob: lock; its home stays" in site.cli("plan", "BLUEPRINT", "--only", "users").stdout
    apply(site, "users")
    apply(site, "shared_homes")
    assert site.ssh("head", "sudo stat -c '%n %u' /srv/homes/bob /srv/homes/eve").splitlines() == [
        "/srv/homes/bob 2002", "/srv/homes/eve 2003",
    ]  # fmt: skip
