"""What a story asks a watched lab's Prometheus, and a receiver on its head, which is told of alerts."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any
from urllib.parse import quote

from tests.support.site import BECOMES_S, Site

ROLES = """
  prometheus: {scrape_s: 3, evaluate_s: 3}
  node_exporter: {collect_s: 5}
  alertmanager: {webhooks: ["http://127.0.0.1:9999/"], group_wait_s: 1}
"""
# Notes each alert that Alertmanager posts, a line each: status, name, node or feed, and when, seconds since 1970.
RECEIVER = """
import http.server, json, time
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open("/var/tmp/alerts", "a") as file:
            for alert in told["alerts"]:
                labels = alert["labels"]
                of = labels.get("node") or labels.get("feed", "-")
                print(alert["status"], labels["alertname"], of, time.time(), file=file)
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 9999), Receiver).serve_forever()
"""
# The status of a page, as curl is not on nodes: with a password or none.
STATUS = """
import base64, ssl, sys, urllib.error, urllib.request
url, password = sys.argv[1:3]
asked = urllib.request.Request(url)
if password:
    asked.add_header("Authorization", "Basic " + base64.b64encode(("hpcforge:" + password).encode()).decode())
trusted = ssl.create_default_context(cafile="/etc/prometheus/hpcforge_authority.pem")
try:
    with urllib.request.urlopen(asked, context=trusted, timeout=20) as answer:
        sys.stdout.write(str(answer.status) + " " + answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
"""


def address(site: Site) -> str:
    return site.ssh("w01", "getent ahostsv4 head").split()[0]


def got(site: Site, url: str, password: str) -> str:
    return site.ssh("head", f"sudo python3 -c {shlex.quote(STATUS)} {shlex.quote(url)} {shlex.quote(password)}")


def password(site: Site) -> str:
    return site.ssh("head", "sudo cat /etc/prometheus/hpcforge_password").strip()


def asked(site: Site, query: str) -> list[dict[str, Any]]:
    """What Prometheus answers, through the web server."""
    text = got(site, f"https://{address(site)}/prometheus/api/v1/query?query={quote(query)}", password(site))
    rows: list[dict[str, Any]] = json.loads(text.partition(" ")[2])["data"]["result"]
    return rows


def wait_for(site: Site, query: str, expected: dict[str, float]) -> float:
    """Wait until a query has these values by node. Returns how long it took, seconds."""
    began = time.monotonic()
    while (
        observed := {row["metric"].get("node", "-"): float(row["value"][1]) for row in asked(site, query)}
    ) != expected:
        assert time.monotonic() < began + BECOMES_S, observed
        time.sleep(0.5)
    return time.monotonic() - began


def receive(site: Site) -> None:
    """Start the receiver."""
    site.ssh("head", f"sudo systemd-run -q --unit=receiver python3 -c {shlex.quote(RECEIVER)}")


def told_at(site: Site) -> dict[str, float]:
    """What the receiver was told so far, STATUS ALERT NODE, and when each first, seconds since 1970."""
    first_s: dict[str, float] = {}
    for line in site.ssh("head", "cat /var/tmp/alerts 2>/dev/null || :").splitlines():
        alert, _, at = line.rpartition(" ")
        first_s.setdefault(alert, float(at))
    return first_s


def told(site: Site) -> set[str]:
    """What the receiver was told so far."""
    return {*told_at(site)}
