"""The page of a cluster that runs, drawn by a browser from what Prometheus answers."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from hpcforge import bundled

CHROMIUM = shutil.which("chromium")


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
