"""Metrics, alerts, logs and the page, on real nodes: three faults at once, one more node, and who is let in.

On Debian 13 the same set starts, and nothing is wrong with it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support import liar
from tests.support.site import BECOMES_S, Site
from tests.support.watched import ROLES, address, asked, got, password, receive, told, wait_for

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: watched
domain: watched.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.78.0.10}
  w[01-03]: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}, addresses: "10.78.0.[11-13]"}
networks: {mgmt: {cidr: 10.78.0.0/23}}
services: {dns: {on: head}, time: {on: head}, syslog: {on: head}, metrics: {on: head}}
software: {os: {name: debian, release: "RELEASE"}}
roles: ROLES
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
users: {ada: {uid: 2001}}
"""
AUTHORITY = "/etc/hpcforge/syslog_authority.pem"
# Root of a node sends messages of 8 kB for 15 s, as fast as they are taken; and opens connections.
FLOOD = f"""
import socket, ssl, sys, time
trusted = ssl.create_default_context(cafile="{AUTHORITY}")
message = b"<13>Nov 26 10:00:00 w01 flood: " + b"x" * 8000
frames = (str(len(message)).encode() + b" " + message) * 8
until = time.monotonic() + 15
with trusted.wrap_socket(socket.create_connection((sys.argv[1], 6514)), server_hostname=sys.argv[1]) as sends:
    sends.settimeout(1)
    while time.monotonic() < until:
        try:
            sends.send(frames)
        except TimeoutError:
            pass
"""
CONNECTIONS = """
import contextlib, socket, sys
held = []
for _ in range(20):
    with contextlib.suppress(ConnectionRefusedError):
        held.append(socket.create_connection((sys.argv[1], 6514), 5))
print(len(held), "of 20")
"""
FAULTS = {
    "w01": ("sudo systemctl stop prometheus-node-exporter", "ExporterDown"),
    "w02": ("sudo rm /dev/fakegpu1", "GpuMissing"),
    "w03": (
        "sudo mkdir -p /srv/full; sudo mount -t tmpfs -o size=8M full /srv/full; sudo fallocate -l 7600K /srv/full/it",
        "DiskFull",
    ),
}
REPAIRS = {
    "w01": "sudo systemctl start prometheus-node-exporter",
    "w02": "sudo systemctl restart hpcforge-fakegpu",
    "w03": "sudo umount /srv/full",
}


@pytest.fixture(scope="module", params=["12", "13"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("watched")
    (folder / "blueprints").mkdir()
    (folder / "blueprints" / "rehearsal.yaml").write_text(
        BLUEPRINT.replace("RELEASE", request.param).replace(" ROLES\n", ROLES)
    )
    here = Site(folder, f"test-watched{request.param}-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        assert here.cli("apply", "BLUEPRINT", "--yes").returncode == 0
        receive(here)
        yield here
    finally:
        here.cli("rehearse", "down")


def on_debian_12(site: Site) -> None:
    if 'release: "12"' not in site.blueprint.read_text():
        pytest.skip("the release is not asked for this")


def test_all_nodes_are_read_and_nothing_is_wrong(site: Site) -> None:
    wait_for(site, 'up{job="node"}', dict.fromkeys(("head", "w01", "w02", "w03"), 1.0))
    wait_for(site, "sum by (node) (gpu_present)", dict.fromkeys(("w01", "w02", "w03"), 2.0))
    wait_for(site, "slurm_node_cpus", dict.fromkeys(("w01", "w02", "w03"), 2.0))
    for row in asked(site, 'count by (node) ({__name__=~".+",node=~"w.*"})'):
        assert float(row["value"][1]) < 1000, row
    wait_for(site, 'ALERTS{alertstate="firing",severity!="none"}', {})
    assert told(site) == set()
    # Root alone reads what opens the page; systemd hands a copy to Alertmanager, which is another user.
    rights = site.ssh("head", "sudo stat -c %a:%U /etc/prometheus/hpcforge_password; ps -o uid= -C prometheus-aler")
    assert rights.split()[0] == "400:prometheus"
    assert 61184 <= int(rights.split()[1]) <= 65519  # a dynamic user, systemd.exec(5)
    assert "nothing to do" in site.cli("plan", "BLUEPRINT").stdout.lower()


def test_only_who_knows_the_password_is_let_in(site: Site) -> None:
    head = address(site)
    for url in (f"https://{head}/", f"https://{head}/cluster.json", f"https://{head}:9090/", f"https://{head}:9093/",
                f"https://{head}/prometheus/api/v1/query?query=up"):  # fmt: skip
        assert got(site, url, "").startswith("401"), url
        assert got(site, url, "wrong").startswith("401"), url
    assert got(site, f"https://{head}/", password(site)).startswith("200 <!doctype html>")
    for port in (443, 9090, 9093):
        assert got(site, f"http://{head}:{port}/", password(site)).startswith("400")
    listening = site.ssh("head", "ss -Hltn | awk '{print $4}' | grep -E ':(80|443|909[0-9]|9100|9115)$' | sort")
    assert listening.split() == sorted([f"{head}:{port}" for port in (443, 9090, 9093, 9100)] + ["127.0.0.1:9115"])


def test_one_more_node_is_read_and_no_other_is_touched(site: Site) -> None:
    on_debian_12(site)
    pid = "systemctl show -P MainPID prometheus"
    before = site.ssh("head", pid)
    text = site.blueprint.read_text().replace("w[01-03]", "w[01-04]").replace("[11-13]", "[11-14]")
    site.blueprint.write_text(text)
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "2 nodes to change: head,w04; unchanged: w[01-03]" in done.stdout + done.stderr
    assert wait_for(site, 'up{job="node",node="w04"}', {"w04": 1.0}) < 30
    assert site.ssh("head", pid) == before
    assert told(site) == set()  # what an apply brings about is held back


def test_a_line_of_one_node_is_found(site: Site) -> None:
    on_debian_12(site)
    site.ssh("w02", "logger -t kernel 'NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus'")
    while not (
        found := json.loads(site.cli("logs", "BLUEPRINT", "w02", "--grep", "NVRM: Xid", "--json").stdout)["lines"]
    ):
        pass
    assert [line["node"] for line in found] == ["w02"]
    assert "Xid" not in site.cli("logs", "BLUEPRINT", "w01", "--grep", "NVRM: Xid").stdout


def test_logs_go_over_tls_and_to_no_other_server(site: Site) -> None:
    head = address(site)
    assert site.ssh("head", "ss -Hltn 'sport = :514'") == ""
    # Not as it would be written down: sudo logs its command.
    plain = f"bash -c \"echo '<13>Nov 26 10:00:00 w01 tls:' plain > /dev/tcp/{head}/6514\""
    assert "Connection refused" in site.ssh("w01", f"{plain} 2>&1 || :")  # who is not root does not reach it
    site.ssh("w01", f"sudo {plain}")
    # A node that trusts another authority tells the head nothing; what waits comes when it trusts the right one.
    other = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=other -keyout /dev/null"
    site.ssh("w02", f"sudo cp -p {AUTHORITY} /var/tmp; sudo {other} -out {AUTHORITY} 2>/dev/null")
    site.ssh("w02", "sudo systemctl restart rsyslog; logger -t tls withheld")
    site.becomes("w02", "sudo journalctl -u rsyslog | grep -q 'certificate verify failed' && echo refused", "refused\n")
    came = "sudo grep -hoE 'tls: ({})' /var/log/cluster/w01.log /var/log/cluster/w02.log || :"
    assert site.ssh("head", came.format(".*")) == ""
    site.ssh("w02", f"sudo mv /var/tmp/{AUTHORITY.rpartition('/')[2]} {AUTHORITY}; sudo systemctl restart rsyslog")
    # Said more than once: what journald hands on while rsyslog starts can be lost.
    until = time.monotonic() + BECOMES_S
    while (heard := set(site.ssh("head", came.format("plain|trusted")).splitlines())) != {"tls: trusted"}:
        assert time.monotonic() < until, heard
        site.ssh("w02", "logger -t tls trusted")
        time.sleep(1)


def test_a_flood_of_one_node_costs_that_node_alone(site: Site) -> None:
    on_debian_12(site)
    head = address(site)
    site.ssh("w01", f"sudo systemd-run -q --unit=flood python3 -c {shlex.quote(FLOOD)} {head}")
    assert site.ssh("w03", f"sudo python3 -c {shlex.quote(CONNECTIONS)} {head}") == "7 of 20\n"  # rsyslog has one of 8
    site.ssh("w02", "for n in $(seq 40); do logger -t steady line $n; sleep 0.2; done")
    site.becomes("head", "sudo grep -c 'steady: line' /var/log/cluster/w02.log || :", "40\n")
    site.becomes("w01", "systemctl is-active flood || :", "inactive\n")
    kept = int(site.ssh("head", "sudo stat -c %s /var/log/cluster/w01.log"))
    assert 8 << 20 < kept < 40 << 20, kept  # 16 MB at once, then 256 kB/s
    site.ssh("head", "sudo systemctl start hpcforge-keep-logs.service")


def test_each_fault_raises_its_own_alert_and_no_other(site: Site) -> None:
    on_debian_12(site)
    # Whatever the last apply began is over: only then nothing is held back any more.
    wait_for(site, 'ALERTS{alertname="HpcforgeRun"}', {})
    for node, (fault, _) in FAULTS.items():
        site.ssh(node, fault)
    wanted = {f"firing {alert} {node}" for node, (_, alert) in FAULTS.items()}
    until = time.monotonic() + BECOMES_S
    while not wanted <= told(site):
        assert time.monotonic() < until, told(site)
        time.sleep(1)
    wait_for(site, 'slurm_node_drained{node="w02"}', {"w02": 1.0})  # the health check found it, too
    for node, repair in REPAIRS.items():
        site.ssh(node, repair)
    repaired = {line.replace("firing", "resolved") for line in wanted}
    while not repaired <= told(site):
        assert time.monotonic() < until + BECOMES_S, told(site)
        time.sleep(1)
    assert told(site) == wanted | repaired


def test_a_worker_that_lies_to_prometheus_silences_and_accuses_no_other(site: Site) -> None:
    """Beside a liar another node's fault is told as before, and nothing that it claims of others is."""
    on_debian_12(site)
    before = told(site)
    site.ssh("w03", "sudo systemctl stop prometheus-node-exporter")
    site.ssh("w03", f"sudo systemd-run -q --unit=lies python3 -c {shlex.quote(liar.EXPORTER)}")
    try:
        wait_for(site, 'gpu_present{exported_node="w01"}', {"w03": 0.0})  # scraped, and as w03's claim
        site.ssh("w02", "sudo systemctl stop prometheus-node-exporter")
        until = time.monotonic() + BECOMES_S
        while "firing ExporterDown w02" not in told(site) - before:
            assert time.monotonic() < until, told(site) - before
            time.sleep(1)
        assert {line.split()[2] for line in told(site) - before} <= {"w02", "w03"}
        site.becomes("head", "sinfo -hN -o '%N %T' | sort -u", "w01 idle\nw02 idle\nw03 idle\nw04 idle\n")
    finally:
        site.ssh("w03", "sudo systemctl stop lies; sudo systemctl start prometheus-node-exporter")
        site.ssh("w02", "sudo systemctl start prometheus-node-exporter")


def test_services_that_answer_users_are_protected(site: Site) -> None:
    protected = "systemctl list-units --type=service --state=active --plain --no-legend | cut -d' ' -f1"
    rating = f"for u in $({protected}); do [ -e /etc/systemd/system/$u.d/hpcforge_protection.conf ] || continue; "
    rating += "sudo systemd-analyze security --no-pager $u | tail -1; done"
    rated = {}
    for node in ("head", "w01"):
        for line in site.ssh(node, rating).splitlines():
            words = line.split(" for ", 1)[1].split()
            rated[words[0].rstrip(":")] = float(words[1])
    names = ("nginx", "prometheus-alertmanager", "prometheus-blackbox-exporter", "prometheus-node-exporter")
    assert rated.keys() == {f"{name}.service" for name in names}
    assert {name: value for name, value in rated.items() if value >= 5} == {}
    wait_for(site, 'sum by (node) (node_filesystem_readonly{node="head"})', {"head": 0.0})


def test_a_removed_node_raises_no_alert_and_its_own_ends(site: Site) -> None:
    on_debian_12(site)
    site.ssh("w04", "sudo systemctl stop slurmd")
    # Alertmanager sends an alert some seconds after it fires: only then whatever comes is the removal's.
    until = time.monotonic() + BECOMES_S
    while "firing SlurmNodeDown w04" not in told(site):
        assert time.monotonic() < until, told(site)
        time.sleep(1)
    text = site.blueprint.read_text().replace("w[01-04]", "w[01-03]").replace("[11-14]", "[11-13]")
    site.blueprint.write_text(text)
    before = told(site)
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    wait_for(site, 'ALERTS{alertname="NodeRemoved",alertstate="firing"}', {"w04": 1.0})
    assert asked(site, 'ALERTS{node="w04",alertstate="firing",severity!="none"}') == []
    assert {line for line in told(site) - before if line.startswith("firing ")} == set()


def test_the_page_takes_a_certificate_that_the_site_brings(site: Site) -> None:
    """The last one: what asks the page in this story trusts the cluster's authority alone."""
    on_debian_12(site)
    key, certificate = site.folder / "page.key", site.folder / "page.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=of-the-site -days 9"
    subprocess.run([*made.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    text = site.blueprint.read_text()
    site.blueprint.write_text(text.replace("\nroles:", "\nroles:\n  metrics_page: {own_certificate: true}", 1))
    for name, path in (("page_certificate", certificate), ("page_key", key)):
        assert site.cli("secrets", "set", "BLUEPRINT", name, said=path.read_text()).returncode == 0
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    shown = "openssl s_client -connect head:443 </dev/null 2>/dev/null | openssl x509 -noout -subject"
    site.becomes("head", shown, "subject=CN = of-the-site\n")
    readable = 'hpcforge_certificate_readable{path="/etc/nginx/hpcforge_server.pem"} 1.0\n'
    site.becomes("head", "grep -h certificate_readable.*nginx /var/lib/hpcforge_metrics/*.prom", readable)
