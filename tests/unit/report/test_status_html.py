"""The page of a cluster at one moment, in a browser: it shows all nodes, and runs nothing that a node said."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
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
