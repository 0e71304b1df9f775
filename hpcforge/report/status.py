"""The status of a cluster, and its history, as text and JSON."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.report.text import duration, lines_text, plural, same_words, table
from hpcforge.run.records.history import History, Past
from hpcforge.run.status import NodeStatus, Status
from hpcforge.secrets.certificate_expiry import Certificate
from hpcforge.styles import state, styled

# Drivers' reports on GPUs as a table: nodes with the same GPUs in one row.
_HEADINGS = ("nodes", "GPUs", "memory", "driver", "VBIOS", "ECC", "NVLinks", "PCIe", "temperature")
_UNKNOWN = "-"


def gpus_table(nvml: Mapping[str, Mapping[str, Any]]) -> str:
    """Write a row for each set of nodes with equal GPUs, and for each other GPU in them; nothing without reports."""
    nodes: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for node, report in nvml.items():
        nodes.setdefault(_gpu_kinds(report), []).append(node)
    rows = []
    for kinds, names in nodes.items():
        for kind in kinds:
            gpus = (gpu for name in names for gpu in nvml[name]["gpus"] if _gpu_facts(gpu, nvml[name]) == kind[1:])
            degrees = [gpu["temperature_c"] for gpu in gpus if gpu["temperature_c"] is not None]
            heat = (
                " to ".join(f"{degree} C" for degree in sorted({min(degrees), max(degrees)})) if degrees else _UNKNOWN
            )
            count, model, *others = kind
            rows.append([fold(tuple(names)), f"{count} {model}", *others, heat])
    return "\n" + table(_HEADINGS, rows) if rows else ""


def _gpu_kinds(report: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """How many of which GPUs a node has."""
    counted = Counter(_gpu_facts(gpu, report) for gpu in report["gpus"])
    return tuple((str(count), *facts) for facts, count in counted.items())


def _gpu_facts(gpu: Mapping[str, Any], report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the facts that GPUs in one row have in common."""
    if gpu["error"]:
        return ("that cannot be used", *(_UNKNOWN,) * 6)
    memory, ecc, links = gpu["memory_mib"], gpu["ecc"], gpu["nvlinks"]
    mig = "" if gpu["mig"] is None else f" (MIG: {', '.join(gpu['mig']) or 'no instances'})"
    return (
        (gpu["model"] or "of unknown model") + mig,
        f"{memory} MiB" if memory else _UNKNOWN,
        report["driver"] or _UNKNOWN,
        gpu["vbios"] or _UNKNOWN,
        _UNKNOWN if ecc is None else "on" if ecc else "off",
        f"{links['active']} of {links['total']}" if links and links["total"] else _UNKNOWN,
        f"{gpu['pcie_generation_max'] or '?'}.0 x{gpu['pcie_width'] or '?'}",
    )


SCHEMA_VERSION = 2
_RESULTS = {
    0: "done",
    1: "error",
    2: "deferred",
    3: "invalid",
    4: "unreachable",
    5: "failed",
    6: "busy",
    7: "not verified",
    130: "interrupted",
}


def status_text(status: Status, now_s: float) -> str:
    """Who is at work, the last run, the verdicts; then a row a set of nodes with the same story."""
    lines = [*_heading(status, now_s), ""]
    stories: dict[tuple[str, ...], list[str]] = {}
    away = same_words({node.name: node.unreachable for node in status.nodes if node.unreachable is not None})
    for node in status.nodes:
        stories.setdefault(_story(node, away.get(node.name), now_s), []).append(node.name)
    rows = [[fold(tuple(names)), *story] for story, names in stories.items()]
    text = table(("nodes", "", "Slurm", "last changed", ""), rows)
    text += gpus_table({node.name: node.nvml for node in status.nodes if node.nvml})
    return lines_text(lines) + text + lines_text(status.notes)


def history_table(history: History) -> str:
    """Write a row for each run, the newest last."""
    rows = [_row(run) for run in history.runs]
    text = table(("run", "started", "who", "took", "result", "commit", "tests", "nodes"), rows)
    if history.older:
        text = f"({plural(history.older, 'older run')} not shown: --last N)\n" + text
    return text + (f"{plural(history.unreadable, 'line')} cannot be read\n" if history.unreadable else "")


def status_json(status: Status, history: History | None) -> dict[str, Any]:
    """Return the status as data, with the selected runs."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "cluster": status.cluster,
        "head": status.head,
        "at_work": asdict(status.at_work) if status.at_work else None,
        "last_run": asdict(status.last) if status.last else None,
        "nodes": {node.name: _node_json(node) for node in status.nodes},
        "leaving": {name: asdict(machine) for name, machine in status.leaving.items()},
        "verdicts": [asdict(record) for record in status.verdicts.kept],
        "notes": list(status.notes),
    }
    return document | ({"history": asdict(history)} if history else {})


def _heading(status: Status, now_s: float) -> Iterator[str]:
    idle = "no run" if status.away is None else f"unknown: {status.head} does not answer"
    yield styled("running:", "title") + "   " + (status.at_work.sentence() if status.at_work else idle)
    yield (
        styled("last run:", "title") + "  " + (_sentence(status.last, now_s) if status.last else "none in the history")
    )
    yield styled("verdicts:", "title") + "  " + ("; ".join(_verdicts(status, now_s)) or "none")
    if status.leaving:
        nodes = fold(tuple(status.leaving))
        yield styled("leaving:", "title") + f"   {nodes} (no longer in the blueprint: removed by the next apply)"


def _verdicts(cluster_status: Status, now_s: float) -> Iterator[str]:
    """Write tests with the same past together: when their node set was tested, and the changes since."""
    away = {node.name for node in cluster_status.nodes if node.unreachable is not None}
    sets = Counter(record.verdict.test for record in cluster_status.verdicts.kept)
    texts_by_time: dict[str, list[str]] = {}
    for record in cluster_status.verdicts.kept:
        nodes = f" on {fold(record.last.nodes)}" if sets[record.verdict.test] > 1 or record.part is not None else ""
        ago = f"{duration(max(0.0, now_s - record.last_s))} ago"
        if record.part is not None:
            ago += f", the whole {duration(max(0.0, now_s - record.time_s))} ago"
        if record.changed or not record.served:
            ago += f"; not tested since a change{f' of {fold(record.changed)}' if record.changed else ''}"
        status = record.last.status.replace("_", " ")
        text = f"{record.verdict.test} {status}{nodes}{_counting_on(away, record.verdict.nodes)}"
        texts_by_time.setdefault(ago, []).append(text)
    return (f"{', '.join(texts)} ({ago})" for ago, texts in texts_by_time.items())


def _counting_on(away: Collection[str], nodes: Collection[str]) -> str:
    """Return the remark on a verdict that includes nodes which are away now."""
    missing = [name for name in nodes if name in away]
    return f" counting on {fold(missing)}, away now" if missing else ""


def _sentence(run: Past, now_s: float) -> str:
    ago = duration(max(0.0, now_s - run.started_s))
    took = "" if run.wall_s is None else f" in {duration(run.wall_s)}"
    return f"{_called(run)} by {run.who}, {ago} ago: {result_words(run)}{took}"


def _called(run: Past) -> str:
    return f"run {run.number}" if run.number else f"run {run.id}"


def result_words(run: Past) -> str:
    """Describe the end of a run in a word or two."""
    if run.cut_off:
        return "cut off"
    return _RESULTS.get(run.exit, f"exit status {run.exit}") if run.exit is not None else "unknown"


def _story(node: NodeStatus, away: str | None, now_s: float) -> tuple[str, ...]:
    """`away` is why it cannot be reached."""
    reached = state("reachable" if node.unreachable is None else "unreachable")
    changed = "-"
    if node.changed:
        changed = f"{_called(node.changed)}, {duration(max(0.0, now_s - node.changed.started_s))} ago"
    ending = (_ending(certificate, now_s) for certificate in node.certificates if certificate.state != "valid")
    troubles = (*node.troubles, *ending, *([away] if away else []))
    return reached, node.slurm or "-", changed, "; ".join(troubles)


def _ending(certificate: Certificate, now_s: float) -> str:
    """Whose certificate ends when, or has."""
    name = f"certificate of {', '.join(certificate.units) or certificate.role} ({certificate.path})"
    if certificate.begins_s is None or certificate.ends_s is None:
        return f"the {name} cannot be read"
    if certificate.state == "not yet valid":
        return f"the {name} is not valid for another {duration(max(0.0, certificate.begins_s - now_s))}"
    if certificate.state == "expired":
        return f"the {name} expired {duration(max(0.0, now_s - certificate.ends_s))} ago"
    return f"the {name} expires in {duration(max(0.0, certificate.ends_s - now_s))}"


def certificates_note(status: Status, apply: str) -> str | None:
    """Describe the remedy for certificates that end, with the command `apply`; None if none ends soon."""
    nodes = [
        node.name for node in status.nodes if any(certificate.state != "valid" for certificate in node.certificates)
    ]
    return f"certificates on {fold(tuple(nodes))} are renewed by: {apply}" if nodes else None


def _row(run: Past) -> list[str]:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started_s))
    took = "-" if run.wall_s is None else duration(run.wall_s)
    commit = (run.commit or "-")[:12] + ("+" if run.dirty else "")
    counts = Counter(status.replace("_", " ") for status in run.verdicts.values())
    tests = ", ".join(f"{count} {status}" for status, count in counts.items()) or "-"
    return [str(run.number or "-"), started, run.who, took, state(result_words(run)), commit, tests, _whereabouts(run)]


def _whereabouts(run: Past) -> str:
    """Write `changed head,w[1-3]; failed w2; unreachable w3; left w9`."""
    nodes = run.nodes.items()
    groups = {
        "changed": [name for name, node in nodes if node.changed],
        "failed": [name for name, node in nodes if node.failed],
        "unreachable": [name for name, node in nodes if node.unreachable],
        "left": run.left,
    }
    return "; ".join(f"{outcome} {fold(names)}" for outcome, names in groups.items() if names) or "-"


def _node_json(node: NodeStatus) -> dict[str, Any]:
    return {
        "unreachable": node.unreachable,
        "slurm": node.slurm,
        "changed_by_run": node.changed.number if node.changed else None,
        "changed_s": node.changed.started_s if node.changed else None,
        "newest_run_seen": node.run,
        "troubles": list(node.troubles),
        "down": asdict(node.down) if node.down else None,
        "gpus": node.nvml,
        "certificates": [asdict(certificate) for certificate in node.certificates],
    }
