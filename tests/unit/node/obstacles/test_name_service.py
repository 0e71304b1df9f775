"""Entries of nsswitch.conf that leave out what the roles rely on are named with the line that helps.

The forms are those of nsswitch.conf(5), nss-resolve(8), nss-mdns's README and Debian's libc-bin and libnss-* packages.
"""

import subprocess

import pytest

from hpcforge.node import obstacles, receipt
from hpcforge.node.obstacles import name_service

NAMES = {"role": "names", "files": [{"path": "/etc/resolv.conf"}]}
USERS = {"role": "users", "accounts": [{"name": "ada"}]}


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "nsswitch.conf"
    path.write_text("passwd: files systemd\ngroup: files systemd\nhosts: files dns\n")
    monkeypatch.setattr(name_service, "PATH", str(path))
    monkeypatch.setattr(name_service, "_RESOLVED", str(tmp_path / "resolved"))
    return path


def found(role):
    return list(name_service.search(obstacles.Inspection([role], {role["role"]: role}, receipt.EMPTY)))


@pytest.mark.parametrize(
    "line",
    [
        "hosts: files dns",
        "hosts:\t\tfiles mdns4_minimal [NOTFOUND=return] dns # a printer",
        "hosts: files resolve [!UNAVAIL=return] dns",
        "hosts: mymachines resolve [!UNAVAIL=return] files myhostname dns",
        "hosts: files dns [NOTFOUND=return] wins",
        "hosts: files [SUCCESS=merge] dns",
        "networks: files",  # no line: the C library has files and dns
    ],
)
def test_a_line_by_which_dns_is_asked_is_no_obstacle(file, line):
    file.write_text(line + "\n")
    assert found(NAMES) == []


@pytest.mark.parametrize(
    ("line", "why", "becomes"),
    [
        ("hosts: files", "names none of dns and resolve", "hosts: files dns"),
        ("hosts: files # dns", "names none of dns and resolve", "hosts: files dns"),
        ("hosts:", "names none of dns and resolve", "hosts: dns"),
        ("hosts: files resolve", "names none of dns and resolve", "hosts: files resolve dns"),
        ("hosts: files [NOTFOUND=return] dns", "ends each search at files [NOTFOUND=return]", "hosts: files dns"),
        ("hosts: files[NOTFOUND=return]dns", "ends each search at files [NOTFOUND=return]", "hosts: files dns"),
        ("hosts: files [!SUCCESS=return] dns", "ends each search at files [!SUCCESS=return]", "hosts: files dns"),
        ("hosts: mdns4 [notfound=return] dns", "ends each search at mdns4 [notfound=return]", "hosts: mdns4 dns"),
        ("hosts: files d/ns", "names none of dns and resolve", "hosts: files dns"),
    ],
)
def test_a_line_by_which_it_is_not_is_named(file, line, why, becomes):
    file.write_text(f"# comment\n{line}\n")
    [conflict] = found(NAMES)
    assert conflict[:3] == ("names", "file", str(file))
    assert conflict.why == f"line 2 {why}: names are not looked up in DNS"
    subprocess.run(["sh", "-c", conflict.commands[0]], check=True)
    assert file.read_text() == f"# comment\n{becomes}\n"
    assert found(NAMES) == []


def test_resolve_counts_where_systemd_resolved_runs(file, tmp_path):
    file.write_text("hosts: files resolve\n")
    (tmp_path / "resolved").touch()
    assert found(NAMES) == []


def test_accounts_of_the_node_have_to_be_looked_up_where_a_role_makes_some(file):
    file.write_text("passwd: sss [NOTFOUND=return] files\ngroup: sss\nhosts: sss\n")
    assert [conflict.why for conflict in found(USERS)] == [
        "line 1 ends each search at sss [NOTFOUND=return]: accounts of this host are not looked up",
        "line 2 names none of files and compat: accounts of this host are not looked up",
    ]
    assert found({"role": "munge", "packages": ["munge"]}) == []


def test_a_host_without_the_file_is_no_obstacle(file):
    file.unlink()
    assert found(NAMES) == []
