"""The page of a cluster at one moment, in a browser: it shows all nodes, and runs nothing that a node said."""

from __future__ import annotations

import html
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.report.status_html import picture, status_page
from hpcforge.run.history import History
from hpcforge.run.status import NodeStatus, Status
from hpcforge.verify.verdict_records import KeptVerdicts, Recorded
from hpcforge.verify.verdicts import Verdict

CHROMIUM = shutil.which("chromium")
NOW = 1_795_600_000.0
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[2J"


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return load(bundled.root() / "blueprints" / "air-cooled-16.yaml", judged=False).cluster


@pytest.fixture(scope="module")
def found(cluster: Cluster) -> Status:
    nodes = [
        NodeStatus(node.name, None, "idle" if "worker" in node.functions else None, None, 1) for node in cluster.nodes
    ]
    names = [node.name for node in cluster.workers]
    by_name = {node.name: node for node in nodes}
    by_name[names[0]] = NodeStatus(names[0], HOSTILE, f"down*: {HOSTILE}", None, None)
    by_name[names[1]] = NodeStatus(names[1], None, "mixed", None, 1, ("GPUs 3, declared 4",))
    failed = KeptVerdicts(Verdict("allreduce", "failed", (names[2],), detail="too slow"), NOW, ())
    return Status(cluster.name, "head01", tuple(by_name.values()), {}, None, None, History(), Recorded((failed,)))


def test_the_picture_has_all_nodes_and_what_is_wrong(cluster: Cluster, found: Status) -> None:
    shown = picture(found, cluster, NOW)
    assert [node["name"] for node in shown["nodes"]] == [node.name for node in cluster.nodes]  # type: ignore[attr-defined]
    assert shown["alerts"] is None  # it did not ask: 0 would be a claim
    faults = [(fault["name"], bool(fault["next"])) for fault in shown["faults"]]  # type: ignore[attr-defined]
    assert faults == [("Unreachable", True), ("Trouble", True), ("TestFailed", True)]
    assert [feed["limit_w"] for feed in shown["feeds"]] == [128000, 128000]  # type: ignore[attr-defined]


def test_the_page_needs_nothing_else_and_holds_no_markup_of_others(cluster: Cluster, found: Status) -> None:
    page = status_page(found, cluster, NOW)
    assert "default-src 'none'" in page
    assert not re.search(r"<(?:link|script)[^>]*(?:href|src)=", page)
    assert "<img" not in page
    assert page.count("<script") == 2


@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="chromium is not installed: make host-test")
def test_a_browser_draws_it(cluster: Cluster, found: Status, tmp_path: Path) -> None:
    assert CHROMIUM
    (tmp_path / "page.html").write_text(status_page(found, cluster, NOW), encoding="utf-8")
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom",
         "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}", str(tmp_path / "page.html")],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    shown = done.stdout.partition('<script type="application/json"')[0]
    for node in cluster.nodes:
        assert f">{node.name}<" in shown
    assert f"{len(cluster.nodes) - 2} of {len(cluster.nodes)}" in shown
    assert html.escape("</script><img src=x onerror=alert(1)>", quote=False) in shown
    assert "Feed A: not measured of 128.0 kW" in shown
    assert '<b>not known</b><span class="soft">alerts</span>' in shown
    assert '<b>not known</b><span class="soft">GPUs in jobs</span>' in shown
    assert '<b>3</b><span class="soft">faults</span>' in shown
    assert "not known: hpcforge status does not ask Prometheus" in shown
    assert "<code>hpcforge verify BLUEPRINT</code>" in shown
    assert "Content Security Policy" not in done.stderr


def _alert(name: str, node: str, severity: str, explains: str = "") -> dict[str, object]:
    labels = {"alertname": name, "node": node, "severity": severity, "explains": explains}
    notes = {"place": node, "summary": f"{name} of {node}", "next": "`systemctl status slurmd`, on it"}
    return {"labels": labels, "annotations": notes, "state": "firing", "activeAt": "2026-11-28T17:00:00Z"}


def _served(path: str) -> tuple[str, str]:
    """Return the type and the text of what a cluster's page asks for."""
    if "/api/" in path:
        held = [_alert("NodeRemoved", "w01", "none", "all"), _alert("DiskFull", "w01", "warning")]
        alerts = [*held, _alert("SlurmNodeDown", "w02", "critical")]
        data = {"alerts": alerts} if path.endswith("/alerts") else {"resultType": "vector", "result": []}
        return "application/json", json.dumps({"status": "success", "data": data})
    if path.endswith(".json"):
        return "application/json", json.dumps({"cluster": "small", "feeds": [], "nodes": []})
    file = bundled.page() / (path.lstrip("/") or "index.html")
    kind = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}[file.suffix]
    return kind, file.read_text("utf-8")


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, text = _served(self.path.partition("?")[0])
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="chromium is not installed: make host-test")
def test_the_live_page_shows_no_alert_of_a_node_that_is_held_back(tmp_path: Path) -> None:
    assert CHROMIUM
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom",
             f"--user-data-dir={tmp_path / 'profile'}", f"http://127.0.0.1:{server.server_address[1]}/"],
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
    finally:
        server.shutdown()
        server.server_close()
    assert '<b>1</b><span class="soft">alerts</span>' in done.stdout
    assert "SlurmNodeDown of w02" in done.stdout
    assert "What to do: <code>systemctl status slurmd</code>, on it" in done.stdout
    assert "DiskFull" not in done.stdout
