"""Grafana's maintained Ansible role on a node, with a stand-in for Grafana's package, which cannot be had here."""

from __future__ import annotations

import io
import json
import os
import shlex
import tarfile
from collections.abc import Iterator

import pytest

from tests.support.nvidia_repository import Stub, key, publish
from tests.support.site import REPOSITORY, Site

pytestmark = pytest.mark.lab

BLUEPRINT = """\
schema: 1
name: shown
domain: shown.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  n01: {functions: [head, worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}, addresses: 10.78.4.10}
networks: {cluster: {cidr: 10.78.4.0/24}}
services: {dns: {on: n01}, time: {on: n01}, metrics: {on: n01}, grafana: {on: n01}}
software: {os: {name: debian, release: "12"}}
roles:
  prometheus: {scrape_s: 3}
  grafana:
    repository: file:///srv/grafana/
    version: 12.3.0
    key: |
KEY
slurm:
  controller: n01
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
users: {ada: {uid: 2001}}
"""
_UNIT = "[Service]\nUser=grafana\nExecStart=/usr/sbin/grafana-server\n[Install]\nWantedBy=multi-user.target\n"
_ACCOUNT = "#!/bin/sh\nset -e\nid grafana >/dev/null 2>&1 || useradd --system --user-group grafana\n"
ASK = """
import base64, ssl, sys, urllib.error, urllib.request
asked = urllib.request.Request("https://" + sys.argv[1] + ":3000/")
asked.add_header("Authorization", "Basic " + base64.b64encode(("admin:" + sys.argv[2]).encode()).decode())
trusted = ssl.create_default_context(cafile="/etc/grafana/hpcforge_authority.pem")
try:
    print(urllib.request.urlopen(asked, context=trusted, timeout=20).read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("shown")
    here, home = Site(folder, f"test-shown-{os.getpid()}"), folder / "gpg"
    (folder / "blueprints").mkdir()
    armour, _ = key(home, "right")
    here.blueprint.write_text(BLUEPRINT.replace("KEY\n", "".join(f"      {line}\n" for line in armour.splitlines())))
    program = (REPOSITORY / "tests/support/stand_in_grafana.py").read_text()
    files = {"usr/sbin/grafana-server": program, "lib/systemd/system/grafana-server.service": _UNIT}
    stubs = [Stub("grafana", version, "python3-yaml", files, _ACCOUNT) for version in ("12.3.0", "12.4.0")]
    publish(folder / "grafana", stubs, home, "right", "grafana", "stable")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(folder / "grafana", "grafana")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        here.unpack("n01", packed.getvalue())
        assert here.cli("apply", "BLUEPRINT", "--yes").returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


def shown(site: Site, password: str) -> str:
    words = f"{shlex.quote(ASK)} 10.78.4.10 {shlex.quote(password)}"
    return site.ssh("n01", f"sudo python3 -c {words}").strip()


def secret(site: Site) -> str:
    return site.ssh("n01", "sudo cat /etc/grafana/hpcforge_password").strip()


def test_it_shows_dashboards_of_roles_and_reads_prometheus(site: Site) -> None:
    assert json.loads(shown(site, secret(site))) == {
        "source": "Prometheus", "up": ["1"], "dashboards": ["GPUs", "Nodes", "Power and smoke tests", "Slurm"],
    }  # fmt: skip
    assert shown(site, "wrong") == "401"
    assert site.ssh("n01", "dpkg-query -Wf '${Version}' grafana") == "12.3.0"
    assert site.ssh("n01", "ss -Hltn 'sport = :3000' | awk '{print $4}'") == "10.78.4.10:3000\n"


def test_secrets_are_in_files_of_their_user_alone(site: Site) -> None:
    rights = site.ssh("n01", "sudo stat -c '%a %U' /etc/grafana/hpcforge_*password /etc/grafana/hpcforge_*key")
    assert {*rights.splitlines()} == {"400 grafana"}
    found = site.ssh("n01", "sudo grep -rlF -f /etc/grafana/hpcforge_password /etc/grafana /var/log /run/log || :")
    assert found.split() == ["/etc/grafana/hpcforge_password"]
    metrics = "sudo grep -rlF -f /etc/grafana/hpcforge_prometheus_password /etc/grafana /var/log /run/log || :"
    assert site.ssh("n01", metrics).split() == ["/etc/grafana/hpcforge_prometheus_password"]


def test_nothing_is_left_to_do_and_another_password_is_taken(site: Site) -> None:
    assert "nothing to do" in site.cli("plan", "BLUEPRINT").stdout.lower()
    assert site.cli("secrets", "rotate", "BLUEPRINT", "metrics_password").returncode == 0
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    site.becomes("n01", "sudo systemctl is-active grafana-server", "active\n")
    assert json.loads(shown(site, secret(site)))["up"] == ["1"]


def test_it_goes_with_the_service(site: Site) -> None:
    text = site.blueprint.read_text()
    site.blueprint.write_text(text.replace(", grafana: {on: n01}", ""))
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    ours = r"-type f \( -path '/etc/grafana/*' -o -name '*rafana*' \)"
    left = site.ssh("n01", f"sudo find /etc/grafana /etc/apt/*.d {ours} | sort")
    assert left == ""  # that the service ends is for the package to do, and the stand-in's does not
