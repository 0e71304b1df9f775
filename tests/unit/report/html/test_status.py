"""The page of a cluster at one moment: it shows all nodes, runs nothing, and stays small for many."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.report.html.status import picture, status_page
from hpcforge.run.records.history import History
from hpcforge.run.status import NodeStatus, Status
from hpcforge.verify.verdict_records import KeptVerdicts, Recorded
from hpcforge.verify.verdicts import Verdict

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
    assert not re.search(r"<(?:link|script)[^>]*(?:href|src)=\"(?!data:)", page)
    assert "<img" not in page
    assert "<script" not in page
    assert html.escape("</script><img src=x onerror=alert(1)>") in page


def test_it_says_without_a_script_what_is_wrong_first(cluster: Cluster, found: Status) -> None:
    page = status_page(found, cluster, NOW)
    assert f"<b>{len(cluster.nodes) - 2} of {len(cluster.nodes)}</b>" in page
    assert page.index("g02: GPUs 3, declared 4") < page.index(">Racks</h2>")
    assert "allreduce: too slow" in page
    assert "not known: hpcforge status does not ask Prometheus" in page
    assert "Feed A: not measured, of 128.0 kW" in page
    assert ">, 4 nodes; down or with a fault: 2; works: 2</span>" in page
    assert page.count('<details class="rack" open>') == 5
    for node in cluster.nodes:
        assert f"<td>{node.name}</td>" in page


def test_nodes_away_for_one_reason_are_one_fault_and_a_missing_host_key_is_no_outage(
    cluster: Cluster, found: Status
) -> None:
    names = [node.name for node in cluster.workers[4:10]]
    away = {name: NodeStatus(name, f"{name} (10.0.0.1) does not answer", None, None, None, reason="timeout")
            for name in names[:3]}  # fmt: skip
    away |= {name: NodeStatus(name, "the inventory has no host key: use --trust-new", None, None, None,
                              reason="no-host-key") for name in names[3:]}  # fmt: skip
    nodes = tuple(away.get(node.name, node) for node in found.nodes)
    shown = picture(replace(found, nodes=nodes), cluster, NOW)
    faults = [(fault["name"], fault["place"], fault["severity"]) for fault in shown["faults"]]  # type: ignore[attr-defined]
    assert faults[:3] == [
        ("Unreachable", "g01", "critical"),
        ("Unreachable", "g[05-07]", "critical"),
        ("Host key not known", "g[08-10]", "warning"),
    ]
    page = status_page(replace(found, nodes=nodes), cluster, NOW)
    assert "<code>hpcforge apply BLUEPRINT --trust-new</code>" in page
    assert "ssh g01; then its console" in page
    assert "ssh NODE; then its console" in page
    assert "not known: 2; works: 2" in page  # rack r3: no fault of theirs


def test_ten_thousand_nodes_are_folded_by_rack(cluster: Cluster) -> None:
    worker = cluster.workers[0]
    nodes = tuple(
        replace(worker, name=f"w{number:05}", rack=f"r{number // 40:03}", rack_u=number % 40)
        for number in range(10_000)
    )
    states = [NodeStatus(node.name, "no route" if number % 3 == 0 else None, "idle", None, 1,
                         ("GPUs 3, declared 4",) if number % 3 == 1 else ())
              for number, node in enumerate(nodes)]  # fmt: skip
    status = Status("large", "head01", tuple(states), {}, None, None, History(), Recorded())
    page = status_page(status, replace(cluster, nodes=nodes), NOW)
    assert page.count('<details class="rack long">') == 250  # each is closed, and not laid out
    assert " open>" not in page
    assert page.count("<td>w0") == 10_000
    assert page.count('class="alert') == 200
    assert "And 3134 more" in page
    assert len(page) < 200 * len(nodes)
