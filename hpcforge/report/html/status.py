"""The page of a cluster's state at one moment.

The page that `services: metrics` serves live, in the folder `page/`, shows the same. Racks are folded where nodes are
many: a browser then lays out no more than what a person opens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import cast

from jinja2 import Environment

from hpcforge.cluster.model import Cluster, Node
from hpcforge.report.html import page_environment
from hpcforge.report.text import by_reason, clean, plural
from hpcforge.run.status import NodeStatus, Status

_OPEN = 64  # nodes up to which racks are not folded
_MOST_FAULTS = 200
_WORDS = {  # as in page/page.js
    "bad": "down or with a fault",
    "warn": "takes no jobs",
    "off": "not known",
    "busy": "runs jobs",
    "good": "works",
}
_SEVERITY = {"critical": "bad", "warning": "warn"}
_AWAY = ("Unreachable", "critical", "ssh NODE; then its console at its management controller")
_UNREACHABLE: Mapping[str | None, tuple[str, str, str]] = {  # by reason: what it is called, severity, what to run
    "no-host-key": ("Host key not known", "warning", "hpcforge apply BLUEPRINT --trust-new"),
    "host-key": ("Host key differs", "critical", ""),
}
_DOWN = re.compile("down|fail|not_responding")
_NO_JOBS = re.compile("drain|maint|reserved")
_JOBS = re.compile("alloc|mix|completing")


def status_page(status: Status, cluster: Cluster, now_s: float) -> str:
    """Return the page. `now_s`: when the nodes were asked, seconds since 1970."""
    shown = picture(status, cluster, now_s)
    nodes = cast("Sequence[Mapping[str, object]]", shown["nodes"])
    racks: dict[object, list[Mapping[str, object]]] = {}
    for node in sorted(nodes, key=lambda node: -cast("int", node["rack_u"])):
        racks.setdefault(node["rack"], []).append(node)
    in_order = dict.fromkeys(node["rack"] for node in nodes)
    faults = cast("Sequence[Mapping[str, object]]", shown["faults"])
    severities = {_severity(fault) for fault in faults}
    return _environment().get_template("status.html.j2").render(
        eyebrow="Status of a cluster",
        name=cluster.name,
        title=plural(len(faults), "fault"),
        kind="bad" if "bad" in severities else "warn" if faults else "good",
        sentence=plural(len(faults), "fault") if faults else "No fault",
        picture=shown,
        racks=[(rack, _counts(racks[rack]), racks[rack]) for rack in in_order],
        works=sum(_node_kind(node) not in ("bad", "off") for node in nodes),
        opened=len(nodes) <= _OPEN,
        most_faults=_MOST_FAULTS,
        words=_WORDS,
    )  # fmt: skip


@lru_cache
def _environment() -> Environment:
    return page_environment({
        "kind_of": _node_kind,
        "severity_of": _severity,
        "gpus": _gpu_words,
        "kilowatts": lambda watts: "a limit that is not known" if watts is None else f"{watts / 1000:.1f} kW",
    })  # fmt: skip


def _severity(fault: Mapping[str, object]) -> str:
    return _SEVERITY.get(str(fault["severity"]), "off")


def _node_kind(node: Mapping[str, object]) -> str:
    """Return what is shown of a node: a fault first, then Slurm's state."""
    state, gpus = str(node["state"]), cast("Sequence[Mapping[str, object]]", node["gpus"])
    if node["up"] is False or _DOWN.search(state):
        return "bad"
    if node["trouble"] or any(gpu["present"] is False for gpu in gpus):
        return "bad"
    if _NO_JOBS.search(state):
        return "warn"
    return "busy" if _JOBS.search(state) else "good" if node["up"] or state else "off"


def _counts(nodes: Sequence[Mapping[str, object]]) -> str:
    """Return how many nodes a rack has, and what they do, the worst first."""
    kinds = Counter(map(_node_kind, nodes))
    words = [f"{word}: {kinds[kind]}" for kind, word in _WORDS.items() if kinds[kind]]
    return "; ".join([plural(len(nodes), "node"), *words])


def _gpu_words(node: Mapping[str, object]) -> str:
    gpus = cast("Sequence[Mapping[str, object]]", node["gpus"])
    missing = sum(gpu["present"] is False for gpu in gpus)
    return f"{len(gpus)}" + (f", {missing} missing" if missing else "") if gpus else "-"


def picture(status: Status, cluster: Cluster, now_s: float) -> Mapping[str, object]:
    """Return the data that the page draws, as `page/live.js` makes it of Prometheus' answers."""
    states = {node.name: node for node in status.nodes}
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
        "faults": [*_faults(status)],
    }


def _node(node: Node, state: NodeStatus) -> Mapping[str, object]:
    slurm, _, reason = (state.slurm or "").partition(": ")
    return {
        "name": node.name,
        "rack": node.rack or "",
        "rack_u": node.rack_u or 0,
        "functions": [*node.functions],
        "up": None if state.reason == "no-host-key" else state.unreachable is None,
        "state": clean(slurm),
        "reason": clean(reason) or None,
        "trouble": clean("; ".join(state.troubles)) or None,
        "cpus": None,
        "power_w": None,
        "gpus": [*_gpus(node, state)],
    }


def _gpus(node: Node, state: NodeStatus) -> Iterator[Mapping[str, object]]:
    """Each declared GPU, with the driver's report on it, if there is one."""
    reported = {gpu.get("index", place): gpu for place, gpu in enumerate((state.nvml or {}).get("gpus", ()))}
    for index in range(node.gpus.count if node.gpus else 0):
        gpu = reported.get(index, {})
        celsius = gpu.get("temperature_c")
        present = index in reported if reported else None
        yield {"index": index, "present": present, "job": None, "use": None, "watts": None, "celsius": celsius}


def _faults(status: Status) -> Iterator[Mapping[str, object]]:
    """Yield the faults, in the form of alerts, each with the command to run next."""
    for reason in dict.fromkeys(node.reason for node in status.nodes if node.unreachable is not None):
        name, severity, command = _UNREACHABLE.get(reason, _AWAY)
        away = {node.name: node.unreachable for node in status.nodes if node.unreachable and node.reason == reason}
        for nodes, count, reason_text in by_reason(away):
            yield _fault(name, severity, nodes, reason_text, command.replace("NODE", nodes) if count == 1 else command)
    for node in status.nodes:
        for trouble in node.troubles:
            yield _fault("Trouble", "warning", node.name, trouble, "hpcforge apply BLUEPRINT")
    for record in status.verdicts.kept:
        if not record.last.passed:
            summary = f"{record.last.test}: {record.last.detail}"
            yield _fault("TestFailed", "warning", record.last.node or "", summary, "hpcforge verify BLUEPRINT")


def _fault(name: str, severity: str, node: str, summary: str, command: str) -> Mapping[str, object]:
    return {
        "name": name,
        "severity": severity,
        "node": node,
        "place": node,
        "summary": clean(summary),
        "next": command,
    }
