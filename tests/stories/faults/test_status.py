"""What the head remembers of runs: read back by `status`, damaged, lost, of a newer hpcforge, of another commit."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.stories.faults.conftest import Site

pytestmark = pytest.mark.lab

KEPT = "/var/lib/hpcforge"


def status(site: Site, code: int = 0) -> dict:
    done = site.run("status", "--history", "--last", "200", "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_who_did_what_and_when(site: Site) -> None:
    site.apply()
    line = site.revise("client", "client.conf.j2")
    site.apply()
    assert line
    found = status(site)
    last = found["last_run"]
    assert (last["exit"], last["verb"], last["number"]) == (0, "apply", found["nodes"]["n02"]["changed_by_run"])
    assert "@" in last["who"]
    numbers = [run["number"] for run in found["history"]["runs"] if run["number"]]  # one killed early has none
    assert numbers == sorted(numbers)
    assert (found["at_work"], found["leaving"], found["notes"]) == (None, {}, [])
    table = site.run("status", "--history")
    assert table.returncode == 0
    assert f"{last['number']} " in table.stdout.splitlines()[-1]
    assert "changed n[01-02]" in table.stdout.splitlines()[-1]
    site.apply()  # nothing to do
    assert status(site)["last_run"] == last


def test_a_run_that_was_killed_is_in_the_history(site: Site) -> None:
    site.apply()
    site.revise("ground", "ground.conf.j2")
    site.revise("client", "client.conf.j2")
    run = site.start()
    run.until("settled", node="n02", role="ground")  # the head knows its number by then, and client is yet to come
    run.send(signal.SIGKILL)
    run.end()
    found = status(site)
    assert found["at_work"] is None
    assert any("that process has ended on this machine" in note for note in found["notes"])
    site.revise("client", "client.conf.j2")
    site.apply()
    dead, after = status(site)["history"]["runs"][-2:]
    assert (dead["cut_off"], after["cut_off"], after["exit"]) == (True, False, 0)
    assert dead["number"] is not None
    assert dead["number"] < after["number"]


def test_what_a_killed_run_did_not_write_down_the_next_one_does(site: Site) -> None:
    site.apply()
    site.inside("n01", f"rm -f {KEPT}/roster.json")  # as if the first apply of all had been killed at its end
    site.apply()
    roster = json.loads(site.inside("n01", f"cat {KEPT}/roster.json"))
    assert list(roster["nodes"]) == ["n01", "n02"]
    runs = len(status(site)["history"]["runs"])
    site.apply()
    assert len(status(site)["history"]["runs"]) == runs  # nothing was done, and all was written down


def test_damage_is_said_and_costs_no_correctness(site: Site) -> None:
    site.apply()
    before = len(status(site)["history"]["runs"])
    site.inside("n01", f"printf '\\377{{half a li' >> {KEPT}/history.jsonl; truncate -s 50 {KEPT}/roster.json")
    found = status(site)
    assert any("history that cannot be read: 1" in note for note in found["notes"])
    assert any("node list cannot be used: damaged" in note for note in found["notes"])
    line = site.revise("ground", "ground.conf.j2")
    done = site.apply()
    assert "the node list on n01 cannot be used: damaged" in done.stderr
    assert "this host's copy is used" in done.stderr
    assert line in site.inside("n02", "cat /etc/faults/ground.conf")
    found = status(site)
    assert not any("node list" in note for note in found["notes"])
    assert len(found["history"]["runs"]) == before + 1
    assert "1 line" in site.run("status", "--history").stdout
    site.inside("n01", f"sed -i '/half a li/d' {KEPT}/history.jsonl")


def test_all_of_it_lost_costs_no_correctness(site: Site) -> None:
    site.apply()
    site.inside("n01", f"rm -f {KEPT}/history.jsonl {KEPT}/roster.json {KEPT}/lease.json")
    shutil.rmtree(site.folder / "state")
    assert site.run("plan").returncode == 0
    line = site.revise("ground", "ground.conf.j2")
    site.apply()
    assert line in site.inside("n02", "cat /etc/faults/ground.conf")
    assert len(status(site)["history"]["runs"]) == 1


def test_without_the_head_this_host_s_copy_is_shown(site: Site) -> None:
    site.apply()
    site.revise("ground", "ground.conf.j2")
    site.apply()
    last = status(site)["last_run"]
    site.link("n01", "down")
    try:
        found = status(site, code=4)
    finally:
        site.link("n01", "up")
    assert found["last_run"] == last
    assert found["nodes"]["n01"]["unreachable"]
    assert found["nodes"]["n02"]["unreachable"] is None
    assert any("as this host last saw them" in note for note in found["notes"])


def test_an_older_hpcforge_is_refused(site: Site) -> None:
    site.apply()
    kept = site.inside("n01", f"cat {KEPT}/roster.json")
    newer = json.loads(kept)
    newer["run"]["hpcforge"] = "99.1"
    rest = {key: value for key, value in newer.items() if key != "checksum"}
    newer["checksum"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    site.inside("n01", f"cat > {KEPT}/roster.json <<'END'\n{json.dumps(newer)}\nEND")
    line = site.revise("ground", "ground.conf.j2")
    try:
        done = site.apply(code=1)
        assert "99.1" in done.stderr
        assert "install that version or a newer one" in done.stderr
        assert line not in site.inside("n02", "cat /etc/faults/ground.conf")
    finally:
        site.inside("n01", f"cat > {KEPT}/roster.json <<'END'\n{kept}END")
    site.apply()


@pytest.fixture
def repository(site: Site) -> Iterator[list[str]]:
    """The blueprint's folder as a git repository; the beginning of a git command line."""
    git = ["git", "-C", str(site.folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    yield git
    shutil.rmtree(site.folder / ".git")


def test_a_blueprint_that_does_not_descend_from_the_last_is_warned_about(site: Site, repository: list[str]) -> None:
    def commit(text: str) -> str:
        subprocess.run([*repository, "add", "site.yaml"], check=True)
        subprocess.run([*repository, "commit", "-q", "--allow-empty", "-m", text], check=True)
        return subprocess.run([*repository, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout[
            :12
        ]

    first = commit("first")
    site.revise("ground", "ground.conf.j2")
    assert "warning" not in site.apply().stderr
    assert status(site)["last_run"]["commit"].startswith(first)
    commit("second")
    assert "warning" not in site.run("plan").stderr
    subprocess.run([*repository, "checkout", "-q", "--orphan", "elsewhere"], check=True)
    other = commit("without the first")
    said = site.run("plan").stderr
    assert f"of commit {first}, which this blueprint's commit {other} does not contain" in said


VAULT = """\
description: A service of the head that speaks TLS.
services: {vault: {description: A service., on: Its node., certified: true}}
on: "node.name in cluster.services.vault.on"
files:
  - {path: /etc/vault.pem, secret: "tls_certificate:{{ node.name }}"}
  - {path: /etc/vault.key, secret: "tls_key:{{ node.name }}", mode: "0600"}
  - {path: /etc/vault_authority.pem, secret: tls_authority}
  - /etc/vault.py
  - path: /etc/systemd/system/vault.service
    content: "[Service]\\nExecStart=/usr/bin/python3 /etc/vault.py\\n[Install]\\nWantedBy=multi-user.target\\n"
units: [vault.service]
"""
VAULT_PORT = 6360
VAULT_SERVES = f"""\
import socket, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/etc/vault.pem", "/etc/vault.key")
with socket.create_server(("", {VAULT_PORT})) as listening:
    while True:
        plain, _ = listening.accept()
        try:
            context.wrap_socket(plain, server_side=True).close()
        except OSError:
            plain.close()
"""


@pytest.fixture
def vault(site: Site) -> Iterator[None]:
    """A role of the site's own whose service shows a certificate of the cluster's authority; gone afterwards."""
    folder = site.folder / "own" / "vault"
    (folder / "files" / "etc").mkdir(parents=True)
    (folder / "role.yaml").write_text(VAULT)
    (folder / "files" / "etc" / "vault.py").write_text(VAULT_SERVES)
    before = site.blueprint.read_text()
    with_vault = before.replace("services:\n", "role_folders: [own]\n\nservices:\n  vault: {on: n01}\n")
    site.blueprint.write_text(with_vault)
    yield
    site.blueprint.write_text(before)
    site.apply()
    shutil.rmtree(site.folder / "own")


def shown_by(site: Site) -> str:
    """What a client makes of the certificate that the service shows: "" where it takes it."""
    client = ssl.create_default_context(cadata=site.inside("n01", "cat /etc/vault_authority.pem"))
    address = site.lab.node("n01").address
    until = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection((address, VAULT_PORT), 30) as plain:
                client.wrap_socket(plain, server_hostname=address).close()
                return ""
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except ConnectionRefusedError:  # it has just started
            assert time.monotonic() < until
            time.sleep(0.2)


@pytest.mark.usefixtures("vault")
def test_a_certificate_that_expired_is_named_with_its_unit_and_an_apply_renews_it(site: Site) -> None:
    assert site.run("apply", "--yes", steps=-2).returncode == 0
    assert shown_by(site) == "certificate has expired"
    (found,) = status(site)["nodes"]["n01"]["certificates"]
    assert (found["path"], found["units"], found["state"]) == ("/etc/vault.pem", ["vault.service"], "expired")
    said = site.run("status").stdout.splitlines()
    (row,) = [line for line in said if line.startswith("n01 ")]
    assert "the certificate of vault.service (/etc/vault.pem) expired " in row
    (note,) = [line for line in said if line.startswith("certificates on n01 are renewed by: ")]
    assert f"apply {site.blueprint}" in note
    site.apply()
    assert shown_by(site) == ""
    (found,) = status(site)["nodes"]["n01"]["certificates"]
    assert found["state"] in ("valid", "due")  # due where another step has just begun
    assert "expired" not in site.run("status").stdout
