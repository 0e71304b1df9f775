"""systemd's protections of services that answer users, and certificates that a site brings for the pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired

_MOST = 5.0  # `systemd-analyze security`: MEDIUM begins there, systemd-analyze(1)
_UNITS = {
    "hpcforge-alerts-journal",
    "lighttpd",
    "nginx",
    "prometheus-alertmanager",
    "prometheus-blackbox-exporter",
    "prometheus-node-exporter",
    "slurmdbd",
    "slurmrestd",
}
_DROP_IN = re.compile(r"/etc/systemd/system/(.*)[.]service[.]d/hpcforge_protection[.]conf")
METRICS = Path(__file__).parent / "blueprints" / "metrics.yaml"
FULL = bundled.root() / "blueprints" / "full-lab.yaml"


def _drop_ins(desired: Desired) -> Iterator[tuple[str, str]]:
    """Yield each protected unit of any node, without `.service`, and its drop-in."""
    for roles in desired.nodes.values():
        for file in (file for role in roles for file in role.of(File)):
            if found := _DROP_IN.fullmatch(file.path):
                yield found[1], desired.texts[str(file.text)]


@pytest.fixture(scope="module")
def drop_ins(compiled: Callable[[Cluster], Desired]) -> dict[str, str]:
    text = FULL.read_text().replace("\nroles:\n", "\nroles:\n  alertmanager: {journal: true}\n")
    text = text.replace("\nservices:\n", "\nservices:\n  depot: {on: head}\n  metrics: {on: head}\n")
    return dict(_drop_ins(compiled(load(FULL, None, instead={FULL: text}).cluster)))


def test_each_service_that_answers_users_is_protected(drop_ins: dict[str, str]) -> None:
    assert drop_ins.keys() == _UNITS
    jobs = {"slurmd", "slurmctld", "ssh"}  # what they start would have less than it may
    assert not jobs & drop_ins.keys()


def test_systemd_rates_each_below_the_limit(drop_ins: dict[str, str], tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program, "systemd-analyze is not installed: make host-test"
    folder = tmp_path / "etc" / "systemd" / "system"
    for name, text in drop_ins.items():
        (folder / f"{name}.service.d").mkdir(parents=True)
        (folder / f"{name}.service.d" / "hpcforge_protection.conf").write_text(text)
        (folder / f"{name}.service").write_text("[Service]\nExecStart=/bin/true\n")

    def rated(name: str) -> float:
        done = subprocess.run(
            [program, "security", "--offline=yes", f"--root={tmp_path}", "--no-pager", f"{name}.service"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert not re.search("Unknown|Failed to parse|Invalid", done.stderr), done.stderr
        [number] = re.findall(r"exposure level for .*: ([\d.]+)", done.stdout)
        return float(number)

    assert {name: rated(name) for name in drop_ins if rated(name) >= _MOST} == {}
    (folder / "nginx.service.d" / "hpcforge_protection.conf").unlink()
    assert rated("nginx") > 9  # the drop-in is what is rated


def test_what_an_exporter_of_the_node_reports_stays_visible(drop_ins: dict[str, str]) -> None:
    """With a root of its own every file system would be read-only, and DiskFull silent."""
    hidden = re.compile(r"^(?:Protect(?:System|Home|Proc|Kernel\w+|ControlGroups)|Private\w+)=", re.M)
    assert not hidden.search(drop_ins["prometheus-node-exporter"])
    assert len(hidden.findall(drop_ins["nginx"])) > 5


@pytest.mark.parametrize("own", [True, False])
def test_the_pages_have_the_sites_certificate_where_it_brings_one(
    own: bool, compiled: Callable[[Cluster], Desired]
) -> None:
    text = METRICS.read_text()
    if own:
        text = text.replace("\nroles:\n", "\nroles:\n  metrics_page: {own_certificate: true}\n")
    roles = compiled(load(METRICS, None, instead={METRICS: text}).cluster).nodes["head"]
    secrets = {file.path: file.secret for role in roles for file in role.of(File) if file.secret}
    for folder in ("/etc/nginx", "/etc/grafana"):
        found = (secrets[f"{folder}/hpcforge_server.pem"], secrets[f"{folder}/hpcforge_server.key"])
        assert found == (("page_certificate", "page_key") if own else ("tls_certificate:head", "tls_key:head"))
    # What the cluster's own programs ask is the cluster's own.
    assert secrets["/etc/prometheus/hpcforge_server.pem"] == "tls_certificate:head"
