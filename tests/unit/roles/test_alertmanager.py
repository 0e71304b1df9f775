"""Who gets which alert (PagerDuty the critical ones, people all), and who gets the mail server's password."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired
from tests.support.metric_programs import load as load_program

METRICS = Path(__file__).parent / "blueprints" / "metrics.yaml"
FILE = "/etc/prometheus/alertmanager.yml"


def _config(desired: Desired) -> Any:
    """Alertmanager's configuration on the head."""
    [file] = [file for role in desired.nodes["head"] for file in role.of(File) if file.path == FILE]
    return yaml.safe_load(desired.texts[str(file.digest)])


@pytest.fixture(scope="module")
def config(compiled: Callable[[Cluster], Desired]) -> Any:
    """The configuration with every receiver."""
    return _config(compiled(load(METRICS).cluster))


def _receivers(route: dict[str, Any], severity: str) -> Iterator[str]:
    """Yield the receivers of an alert: of each child that matches until one does not continue, else the route's own."""
    matched = False
    for child in route.get("routes", ()):
        if all(matcher == f'severity="{severity}"' for matcher in child.get("matchers", ())):
            matched = True
            yield from _receivers(child, severity)
            if not child.get("continue"):
                return
    if not matched:
        yield route["receiver"]


@pytest.mark.parametrize(
    ("severity", "receivers"),
    [("critical", ["pagerduty", "people"]), ("warning", ["people"]), ("info", ["people"]), ("none", ["nobody"])],
)
def test_pagerduty_gets_critical_alerts_alone(config: Any, severity: str, receivers: list[str]) -> None:
    assert [*_receivers(config["route"], severity)] == receivers


def test_each_way_is_of_one_receiver(config: Any) -> None:
    ways = {receiver["name"]: {*receiver} - {"name"} for receiver in config["receivers"]}
    assert ways == {
        "nobody": set(),
        "people": {"email_configs", "webhook_configs", "slack_configs"},
        "pagerduty": {"pagerduty_configs"},
    }


def test_what_holds_alerts_back_is_of_the_cluster(config: Any) -> None:
    """A source without `equal` holds back alerts of all nodes: its rule reads series of the controller alone."""
    rules = [
        rule
        for path in bundled.root().glob("roles/*/alerts.yaml")
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]
    assert [inhibit["equal"] for inhibit in config["inhibit_rules"] if "equal" in inhibit] == [["node"], ["node"]]
    sources = [rule for rule in rules if rule["labels"].get("explains") in ("run", "all")]
    assert {rule["alert"] for rule in sources} == {"HpcforgeRun", "NodeMaintenance", "NodeInRun", "NodeRemoved"}
    for rule in sources:  # or the server's own, as those of Prometheus about its targets and alerts are
        own = rule["expr"].count('up{job="ping"}') + rule["expr"].count("ALERTS_FOR_STATE{")
        assert rule["expr"].count("{") == rule["expr"].count('{job="cluster"}') + own > 0
    [down] = [rule for rule in rules if rule["labels"].get("explains") == "node"]
    assert (down["alert"], 'probe_success{job="ping"}' in down["expr"]) == ("NodeDown", True)


@pytest.mark.parametrize(("port", "user", "tls"), [(587, "", True), (25, "", False), (25, "cluster", True)])
def test_a_mail_password_needs_tls_at_every_port(
    port: int, user: str, tls: bool, compiled: Callable[[Cluster], Desired]
) -> None:
    text = METRICS.read_text().replace("example.org:587", f"example.org:{port}")
    text = text.replace("    mail_user: cluster\n", f"    mail_user: {user}\n" if user else "")
    desired = compiled(load(METRICS, None, instead={METRICS: text}).cluster)
    settings = _config(desired)["global"]
    assert settings["smtp_require_tls"] is tls
    assert settings.get("smtp_auth_username", "") == user


def test_alerts_in_the_journal_are_a_line_each_and_say_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    journal = load_program("alertmanager/alerts_journal.py")
    server = journal.server(0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    alert = {
        "status": "firing",
        "labels": {"alertname": "DiskFull", "severity": "warning", "node": "w01"},
        "annotations": {"summary": "/home is\nfull\x1b[2J", "next": "`du -x /home`, on w01"},
    }

    def status(body: bytes) -> int:
        posted = urllib.request.Request(f"http://127.0.0.1:{server.server_address[1]}/", body, method="POST")
        try:
            with urllib.request.urlopen(posted, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    try:
        assert status(json.dumps({"alerts": [alert, {**alert, "status": "resolved"}]}).encode()) == 200
        for body in (b"", b"{", b"[]", b'{"alerts": [3]}', b'{"alerts": [{"status": 1}]}'):
            assert status(body) == 400
    finally:
        server.shutdown()
        server.server_close()
    text = "warning DiskFull w01: /home is?full?[2J; what to do: `du -x /home`, on w01"
    assert capsys.readouterr().out == f"firing {text}\nresolved {text}\n"


def test_what_to_do_is_in_each_message(config: Any) -> None:
    people, pagerduty = (
        {receiver["name"]: receiver for receiver in config["receivers"]}[name] for name in ("people", "pagerduty")
    )
    assert ".Annotations.next" in people["slack_configs"][0]["text"]
    assert ".Annotations.next" in pagerduty["pagerduty_configs"][0]["details"]["what to do"]
    # Mail in Alertmanager's own form, and what is posted to a webhook, have all annotations.
    assert "html" not in people["email_configs"][0]
