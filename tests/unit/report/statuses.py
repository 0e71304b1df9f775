"""A status with every kind of node, as a page, and as the page that `services: metrics` serves."""

from __future__ import annotations

import json
from dataclasses import replace

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


def cluster() -> Cluster:
    return load(bundled.root() / "blueprints" / "air-cooled-16.yaml", judged=False).cluster


def status(of: Cluster) -> Status:
    nodes = [NodeStatus(node.name, None, "idle" if "worker" in node.functions else None, None, 1) for node in of.nodes]
    names = [node.name for node in of.workers]
    by_name = {node.name: node for node in nodes}
    by_name[names[0]] = NodeStatus(names[0], HOSTILE, f"down*: {HOSTILE}", None, None)
    by_name[names[1]] = NodeStatus(names[1], None, "mixed", None, 1, ("GPUs 3, declared 4",))
    by_name[names[3]] = NodeStatus(names[3], None, "drained: fans", None, 1)
    by_name[names[4]] = NodeStatus(names[4], None, "allocated", None, 1)
    failed = KeptVerdicts(Verdict("allreduce", "failed", (names[2],), detail="too slow"), NOW, ())
    return Status(of.name, "head01", tuple(by_name.values()), {}, None, None, History(), Recorded((failed,)))


def page() -> str:
    return status_page(status(cluster()), cluster(), NOW)


def large() -> Cluster:
    """Ten thousand nodes in 250 racks."""
    of = cluster()
    racks = ((f"w{number:05}", f"r{number // 40:03}", number % 40) for number in range(10_000))
    return replace(of, nodes=tuple(replace(of.workers[0], name=name, rack=rack, rack_u=u) for name, rack, u in racks))


def live_page(whole: Cluster) -> str:
    """The page of the folder `page/` with style and script in it, drawn once of data."""
    shown = {**picture(status(whole), whole, NOW), "source": "Prometheus", "jobs": {"running": 3, "pending": 1}}
    shown["alerts"] = shown["faults"]
    folder = bundled.page()
    text = (folder / "index.html").read_text("utf-8")
    plain = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(("<link", "<script")))
    data = json.dumps(shown).replace("<", "\\u003c")
    chosen = whole.workers[0].name
    script = (folder / "page.js").read_text("utf-8")
    drawn = f"{script}\nconst picture = {data};\npage.draw(picture, {json.dumps(chosen)}, () => {{}});"
    style = (folder / "page.css").read_text("utf-8")
    return plain.replace("</head>", f"<style>{style}</style></head>").replace(
        "</body>", f"<script>{drawn}</script></body>"
    )
