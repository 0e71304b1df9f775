"""The state of a cluster at one moment as one HTML page: what `services: metrics` serves live, with the data inside.

The page, its style and the script that draws it are those of the folder `page/`. Data is JSON in an element that no
browser runs; a content policy forbids loading, and scripts but for that one.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping

from hpcforge import bundled
from hpcforge.cluster.model import Cluster, Node
from hpcforge.report.text import clean
from hpcforge.run.status import NodeStatus, Status

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src '{script}'; base-uri 'none'; form-action 'none'"
_LINKED = ('<link rel="stylesheet"', "<script src=")  # how lines of the page begin that load something


def status_page(found: Status, cluster: Cluster, now_s: float) -> str:
    """Return the page. `now_s`: when the nodes were asked, seconds since 1970."""
    folder = bundled.page()
    page, style, script = ((folder / name).read_text("utf-8") for name in ("index.html", "page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = _POLICY.format(script=f"sha256-{digest}")
    data = json.dumps(picture(found, cluster, now_s), ensure_ascii=True).replace("<", "\\u003c")
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>\n{style}</style>\n</head>'
    tail = f'<script type="application/json" id="picture">{data}</script>\n<script>{script}</script>\n</body>'
    plain = "".join(line for line in page.splitlines(keepends=True) if not line.lstrip().startswith(_LINKED))
    return plain.replace("</head>", head, 1).replace("</body>", tail, 1)


def picture(found: Status, cluster: Cluster, now_s: float) -> Mapping[str, object]:
    """Return the data that the page draws, as `page/live.js` makes it of Prometheus' answers."""
    states = {node.name: node for node in found.nodes}
    return {
        "cluster": cluster.name,
        "source": "hpcforge status",
        "time_s": now_s,
        "nodes": [_node(node, states[node.name]) for node in cluster.nodes if node.name in states],
        "jobs": None,
        "feeds": [
            {"name": feed.name, "limit_w": feed.limit_w, "load_w": None, "nodes": 0, "measured": 0}
            for feed in cluster.feeds
        ],
        "alerts": None,  # Prometheus' are not asked for
        "faults": [*_faults(found)],
    }


def _node(node: Node, state: NodeStatus) -> Mapping[str, object]:
    slurm, _, reason = (state.slurm or "").partition(": ")
    return {
        "name": node.name,
        "rack": node.rack or "",
        "rack_u": node.rack_u or 0,
        "functions": [*node.functions],
        "up": state.unreachable is None,
        "state": clean(slurm),
        "reason": clean(reason) or None,
        "trouble": clean("; ".join(state.troubles)) or None,
        "cpus": None,
        "power_w": None,
        "gpus": [*_gpus(node, state)],
    }


def _gpus(node: Node, state: NodeStatus) -> Iterator[Mapping[str, object]]:
    """Each declared GPU, with what the driver said of it, if it was asked."""
    told = {gpu.get("index", place): gpu for place, gpu in enumerate((state.nvml or {}).get("gpus", ()))}
    for index in range(node.gpus.count if node.gpus else 0):
        gpu = told.get(index, {})
        celsius = gpu.get("temperature_c")
        present = index in told if told else None
        yield {"index": index, "present": present, "job": None, "use": None, "watts": None, "celsius": celsius}


def _faults(found: Status) -> Iterator[Mapping[str, object]]:
    """Yield the faults, in the form of alerts, each with the command to run next."""
    for node in found.nodes:
        if node.unreachable is not None:
            reach = f"`ssh {node.name}`; then its console at its management controller"
            yield _fault("Unreachable", "critical", node.name, node.unreachable, reach)
        for trouble in node.troubles:
            yield _fault("Trouble", "warning", node.name, trouble, "`hpcforge apply BLUEPRINT`")
    for kept in found.verdicts.kept:
        if not kept.last.passed:
            summary = f"{kept.last.test}: {kept.last.detail}"
            yield _fault("TestFailed", "warning", kept.last.node or "", summary, "`hpcforge verify BLUEPRINT`")


def _fault(name: str, severity: str, node: str, summary: str, command: str) -> Mapping[str, object]:
    return {
        "name": name,
        "severity": severity,
        "node": node,
        "place": node,
        "summary": clean(summary),
        "next": command,
    }
