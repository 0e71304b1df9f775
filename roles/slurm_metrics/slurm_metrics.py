#!/usr/bin/python3 -BIS
"""Print Slurm's jobs, nodes and queues as metrics, in Prometheus' text format.

One squeue, sinfo, sdiag and sacctmgr, whatever the number of jobs. Columns have fixed widths, so that no text of a user
can shift them; it is cut there. Fields: squeue(1) and sinfo(1), --Format; sdiag(1). Standard library, Python 3.9.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

sys.path.insert(0, "/usr/lib/hpcforge")
import metric_sources

COLLECTOR = "slurm"
ACCOUNTING_S = "5"  # an alert waits for it
WANTED = "/etc/hpcforge/slurm_metrics.json"
OURS = "hpcforge: "  # how reasons of hpcforge's own drains begin
JOBS = (("State", 20), ("Partition", 64), ("tres-alloc", 256))
NODES = (("NodeList", 64), ("StateComplete", 64), ("CPUsState", 32), ("GresUsed", 128), ("Gres", 128), ("Reason", 128))
SDIAG = {
    "DBD Agent queue size": "slurm_dbd_queue",
    "Server thread count": "slurm_threads",
    "Agent queue size": "slurm_agent_queue",
}
DOWN = {"down", "fail", "failing", "not_responding", "unknown", "power_down", "powered_down"}
Sample = metric_sources.Sample


def columns(fields: Iterable[tuple[str, int]]) -> str:
    """As --Format takes them."""
    return ",".join(f"{name}:{width}" for name, width in fields)


def rows(text: str, fields: tuple[tuple[str, int], ...]) -> Iterator[list[str]]:
    """Yield the cells of each line; a line that is too short is none."""
    whole = sum(width for _, width in fields)
    for line in text.splitlines():
        if len(line) < whole - fields[-1][1]:
            continue
        cells, at = [], 0
        for _, width in fields:
            cells.append(line[at : at + width].strip())
            at += width
        yield cells


def jobs(text: str) -> Iterator[Sample]:
    """Yield how many jobs there are, and their CPUs and GPUs, by state and partition."""
    count: Counter[tuple[str, str]] = Counter()
    gpus: Counter[tuple[str, str]] = Counter()
    cpus: Counter[tuple[str, str]] = Counter()
    for state, partition, tres in rows(text, JOBS):
        key = (state.lower(), partition)
        count[key] += 1
        gpus[key] += number(r"\bgres/gpu=(\d{1,9})", tres)
        cpus[key] += number(r"\bcpu=(\d{1,9})", tres)
    for name, counted in (("slurm_jobs", count), ("slurm_jobs_gpus", gpus), ("slurm_jobs_cpus", cpus)):
        for (state, partition), value in sorted(counted.items()):
            yield name, {"state": state, "partition": partition}, value
    if not count:  # an empty queue is not an absent one
        yield "slurm_jobs", {"state": "pending", "partition": ""}, 0


def nodes(text: str, racks: dict[str, list[str]]) -> Iterator[Sample]:
    """Yield each node's state, CPUs and GPUs. A node is listed once for each of its partitions."""
    seen: set[str] = set()
    for node, state, cpus, used, gres, reason in rows(text, NODES):
        if node in seen:
            continue
        seen.add(node)
        rack, unit = racks.get(node, ["", ""])
        labels = {"node": node, "rack": rack, "rack_u": unit}
        words = {word.strip("*~#!%$@^-") for word in state.lower().split("+")}
        if state.endswith("*"):
            words.add("not_responding")
        ours = reason.startswith(OURS)
        drained = bool(words & {"drain", "drained", "draining"})
        yield "slurm_node_state", {**labels, "state": "+".join(sorted(words))}, 1
        yield "slurm_node_down", labels, bool(words & DOWN)
        yield (
            "slurm_node_drained",
            {**labels, "reason": re.sub(r"\d{1,9} MiB", "N MiB", reason) if drained else ""},
            drained,
        )
        yield "slurm_node_maintenance", labels, drained and ours
        allocated, _, _, total = [*cpus.split("/"), "", "", ""][:4]
        yield "slurm_node_cpus", labels, number(r"^(\d{1,9})$", total)
        yield "slurm_node_cpus_allocated", labels, number(r"^(\d{1,9})$", allocated)
        yield "slurm_node_gpus", labels, total_of(r"\bgpu(?::[\w.-]{1,64})?:(\d{1,6})", gres)
        yield "slurm_node_gpus_allocated", labels, total_of(r"\bgpu(?::[\w.-]{1,64})?:(\d{1,6})", used)


def places(settings: dict[str, Any]) -> Iterator[Sample]:
    """Check the labels of nodes' places, which have no sample. Raises KeyError, TypeError or AttributeError."""
    for place in (*settings["racks"].values(), (settings["accounting"] or {}).values()):
        "".join(place)
    yield from ()


def queues(text: str) -> Iterator[Sample]:
    """Yield what sdiag counts; a name that begins like another is told apart by the whole line."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        metric = SDIAG.get(name.strip())
        if metric is not None and value.strip().isdigit():
            yield metric, {}, int(value.strip()[:12])


def number(pattern: str, text: str) -> int:
    """The first number that a pattern finds, or 0."""
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def total_of(pattern: str, text: str) -> int:
    """The sum of all that it finds."""
    return sum(map(int, re.findall(pattern, text)))


def squeue() -> Iterator[Sample]:
    """Yield what squeue prints of jobs."""
    yield from jobs(metric_sources.output("squeue", "--noheader", "--array", "--all", f"--Format={columns(JOBS)}"))


def sinfo(racks: dict[str, list[str]]) -> Iterator[Sample]:
    """Yield what sinfo prints of nodes."""
    command = ("sinfo", "--noheader", "--Node", "--all", f"--Format={columns(NODES)}")
    yield from nodes(metric_sources.output(*command), racks)


def sdiag() -> Iterator[Sample]:
    """Yield the queues that sdiag prints."""
    yield from queues(metric_sources.output("sdiag"))


def accounting() -> Iterator[bool]:
    """Yield True where slurmdbd answers from its database."""
    command = ("sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=cluster")
    metric_sources.output("timeout", "--kill-after=1", ACCOUNTING_S, *command)
    yield True


def main() -> None:
    """Print all of it."""
    settings, config = metric_sources.config(COLLECTOR, WANTED, places)
    sources: dict[str, Any] = {"squeue": squeue, "sinfo": partial(sinfo, settings.get("racks", {})), "sdiag": sdiag}
    # The labels of slurmdbd's node, or none for the site's; null where there is no accounting.
    place = settings.get("accounting")
    answers = metric_sources.read(COLLECTOR, {**sources, **({"sacctmgr": accounting} if place is not None else {})})
    samples: list[Sample] = [sample for name in sources for sample in answers[name].items]
    if place is not None:  # no hpcforge_source_up of its own: this metric is it
        samples.append(("slurm_accounting_answers", place, answers.pop("sacctmgr").up))
    samples += metric_sources.up(COLLECTOR, {"config": config, **answers})
    print("\n".join(metric_sources.lines(samples)))


if __name__ == "__main__":
    main()
