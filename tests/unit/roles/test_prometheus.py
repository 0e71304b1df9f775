"""Debian's Prometheus with the configuration and rules of the roles: a node is believed about itself alone."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge.cluster.load import load
from hpcforge.kinds.files import File
from hpcforge.plan.roles.role import Role
from tests.unit.roles.goldens import HERE, compiled

_LIMIT_S = 60
_FOLDER = "/etc/prometheus/"
_HEALTHY = "node_boot_time_seconds 1\n"
_DOWN = "probe_success 0\n"
_ANSWERS = "probe_success 1\n"
_OF_HEAD = (
    'slurm_node_maintenance{node="w02"} 1\nslurm_node_down{node="w02",rack="r9"} 0\n'
    'hpcforge_run_active 1\nhpcforge_feed_limit_watts{feed="A"} 5\nnode_of_head 1\n'
    'hpcforge_source_up{collector="slurm",source="squeue"} 0\nhpcforge_source_up{collector="slurm",source="sdiag"} 1\n'
    'hpcforge_source_up{collector="facts",source="chrony"} 1\nnode_textfile_scrape_error 1\n'
)


def _hostile() -> str:
    """Return what w03 says: w04 answers, is drained by hpcforge, and an apply runs; all with times in the future."""
    later_ms = int((time.time() + 540) * 1000)
    labels = 'node="w04",instance="w04",rack="r9",rack_u=""'
    return (
        f'probe_success{{job="ping",{labels}}} 1 {later_ms}\n'
        f'hpcforge_run_active{{job="cluster",node="head",instance="head"}} 1\n'
        f'slurm_node_maintenance{{job="cluster",{labels}}} 1\n'
        f'ALERTS{{job="node",alertname="NodeDown",alertstate="firing",{labels}}} 1\n'
        f'hpcforge_source_up{{collector="slurm",source="sdiag",{labels}}} 0\n'
        f'hpcforge_collector_success{{collector="slurm",{labels}}} 0\n'
        f'hpcforge_source_up{{collector="gpus",source="journal",{labels}}} 0\n'
        f'gpu_present{{{labels},gpu="0"}} 0\n'
    )


class _Prometheus:
    """A running one, and a server for each of its targets on loopback: what it answers is in `bodies`, by target."""

    def __init__(self, url: str, bodies: dict[str, Callable[[], str]]) -> None:
        self.url, self.bodies = url, bodies

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}", timeout=5) as answer:
            return json.load(answer)["data"]

    def series(self, query: str) -> list[dict[str, str]]:
        return [row["metric"] for row in self.ask(f"query?query={query}")["result"]]

    def alerts(self, state: str = "firing") -> set[tuple[str, str]]:
        return {
            (alert["labels"]["alertname"], alert["labels"].get("node", ""))
            for alert in self.ask("alerts")["alerts"]
            if alert["state"] == state
        }

    def wait(self, condition: Callable[[], object]) -> None:
        until = time.monotonic() + _LIMIT_S
        while not condition():
            assert time.monotonic() < until, (self.alerts(), self.ask("targets?state=active"))
            time.sleep(0.2)


def _server(body: Callable[[], str]) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body().encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _files(roles: tuple[Role, ...]) -> dict[str, str]:
    """The files of Prometheus on the head of a blueprint, by name."""
    cluster = load(HERE / "blueprints" / "metrics.yaml").cluster
    desired = compiled(cluster, roles)
    [role] = [role for role in desired.nodes["head"] if role.role == "prometheus"]
    named = {file.path.removeprefix(_FOLDER): file for file in role.of(File)}
    names = ("prometheus.yml", "hpcforge_rules.yml", "hpcforge_targets.json")
    return {name: desired.texts[str(named[name].text)] for name in names}


def _local(files: dict[str, str], folder: Path, ports: dict[str, int]) -> None:
    """Write them with targets on loopback, and faster. Alertmanager and the monitoring's own targets are left out."""
    config = yaml.safe_load(files["prometheus.yml"].replace(_FOLDER, f"{folder}/"))
    config["global"] |= {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    del config["alerting"]
    config["scrape_configs"] = [job for job in config["scrape_configs"] if job["job_name"] != "monitoring"]
    for job in config["scrape_configs"]:
        for group in job.get("static_configs", ()):
            group["targets"] = [f"127.0.0.1:{ports[group['labels']['node']]}"]
    targets = json.loads(files["hpcforge_targets.json"])
    for target in targets:
        labels = target["labels"]
        name = f"ping {labels['node']}" if labels["job"] == "ping" else labels["node"]
        target["targets"] = [f"127.0.0.1:{ports[name]}"]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "hpcforge_targets.json").write_text(json.dumps(targets))
    rules = re.sub(r"^( +(?:keep_firing_)?for:) .*$", r"\1 1s", files["hpcforge_rules.yml"], flags=re.MULTILINE)
    (folder / "hpcforge_rules.yml").write_text(rules)


@pytest.fixture
def prometheus(roles: tuple[Role, ...], tmp_path: Path) -> Iterator[_Prometheus]:
    program = shutil.which("prometheus")
    assert program, "prometheus is not installed: make host-test"
    nodes = ("head", "w01", "w02", "w03", "w04")
    bodies: dict[str, Callable[[], str]] = {
        **{node: lambda: _HEALTHY for node in nodes},
        **{f"ping {node}": lambda: _ANSWERS for node in nodes},
        "head": lambda: _OF_HEAD,
    }
    servers = {name: _server(lambda name=name: bodies[name]()) for name in bodies}  # type: ignore[misc]
    _local(_files(roles), tmp_path, {name: server.server_address[1] for name, server in servers.items()})
    address = f"127.0.0.1:{_free_port()}"
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(
            [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
             f"--web.listen-address={address}", "--log.level=debug"],
            stdout=log, stderr=log,
        )  # fmt: skip
    made = _Prometheus(f"http://{address}", bodies)
    try:
        until = time.monotonic() + _LIMIT_S
        while running.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError):
                made.ask("alerts")
                break
            time.sleep(0.1)
        assert running.poll() is None, (tmp_path / "log").read_text()[-3000:]
        yield made
    finally:
        running.terminate()
        running.wait(20)
        for server in servers.values():
            server.shutdown()
            server.server_close()


def test_a_node_is_believed_about_itself_alone(prometheus: _Prometheus) -> None:
    prometheus.bodies |= {"w03": _hostile, "ping w04": lambda: _DOWN}
    prometheus.wait(lambda: ("NodeDown", "w04") in prometheus.alerts())
    prometheus.wait(lambda: ("NodeMaintenance", "w02") in prometheus.alerts())  # which the head reports
    prometheus.wait(lambda: ("GpuMissing", "w03") in prometheus.alerts())
    of_metrics = {("MetricSourceDown", "head"), ("MetricSourceDown", "w03"), ("MetricsUnreadable", "head")}
    prometheus.wait(lambda: of_metrics <= prometheus.alerts())
    assert "SlurmctldDown" not in {name for name, _ in prometheus.alerts()}
    read = {(series["source"], series["node"], series["job"]) for series in prometheus.series("hpcforge_source_up")}
    assert read == {
        ("squeue", "head", "cluster"), ("sdiag", "head", "cluster"), ("chrony", "head", "node"),
        ("journal", "w03", "node"),
    }  # fmt: skip
    assert {alert for alert in prometheus.alerts() if alert[1] == "w04"} == {("NodeDown", "w04")}
    [kept] = prometheus.series("gpu_present")
    assert (kept["node"], kept["instance"], kept["rack"], kept["exported_node"]) == ("w03", "w03", "r2", "w04")
    assert {series["job"] for series in prometheus.series("hpcforge_run_active")} == {"cluster"}
    assert [series["node"] for series in prometheus.series("slurm_node_maintenance")] == ["w02"]
    assert [series["job"] for series in prometheus.series("node_of_head")] == ["node"]
    down = prometheus.series("slurm_node_down")
    assert [(series["node"], series["rack"], series["job"]) for series in down] == [("w02", "r9", "cluster")]


def test_what_a_node_sends_is_bounded(prometheus: _Prometheus) -> None:
    endless = {
        "w01": lambda: "".join(f'flood{{n="{n}"}} 1\n' for n in range(20_000)),
        "w02": lambda: f'flood{{n="{"x" * 5000}"}} 1\n',
        "w03": lambda: f"flood 1\n{'# x' * 9_000_000}\n",
        "w04": lambda: "flood{" + ",".join(f'l{n}="1"' for n in range(40)) + "} 1\n",
    }
    prometheus.bodies |= endless
    prometheus.wait(lambda: {("ExporterDown", node) for node in endless} <= prometheus.alerts())
    assert prometheus.series("flood") == []
    assert ("ExporterDown", "head") not in prometheus.alerts()
