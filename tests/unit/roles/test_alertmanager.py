"""Who gets the mail server's password."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired

METRICS = Path(__file__).parent / "blueprints" / "metrics.yaml"
FILE = "/etc/prometheus/alertmanager.yml"


@pytest.mark.parametrize(("port", "user", "tls"), [(587, "", True), (25, "", False), (25, "cluster", True)])
def test_a_mail_password_needs_tls_at_every_port(
    port: int, user: str, tls: bool, compiled: Callable[[Cluster], Desired]
) -> None:
    text = METRICS.read_text().replace("example.org:587", f"example.org:{port}")
    text = text.replace("    mail_user: cluster\n", f"    mail_user: {user}\n" if user else "")
    desired = compiled(load(METRICS, None, instead={METRICS: text}).cluster)
    [file] = [file for role in desired.nodes["head"] for file in role.of(File) if file.path == FILE]
    settings = yaml.safe_load(desired.texts[str(file.digest)])["global"]
    assert settings["smtp_require_tls"] is tls
    assert settings.get("smtp_auth_username", "") == user
