#!/usr/bin/python3 -IS
"""Print Slurm's jobs, nodes and queues as metrics, in Prometheus' text format.

One squeue, sinfo, sdiag and sacctmgr, whatever the number of jobs. Columns have fixed widths, so that no text of a user
can shift them; it is cut there. Fields: squeue(1) and sinfo(1), --Format; sdiag(1). Standard library, Python 3.9.
"""

import json
import re
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

WANTED = "/etc/hpcforge/slurm_metrics.json"
LIMIT_S = 10
MOST_BYTES = 1 << 30  # of memory: users' job arrays can have millions of lines
ACCOUNTING_S = 5  # a slurmdbd that hangs leaves time to print the rest: this program is ended after 20 s
OURS = "hpcforge: "  # how reasons of hpcforge's own drains begin
JOBS = (("State", 20), ("Partition", 64), ("tres-alloc", 256))
NODES = (("NodeList", 64), ("StateComplete", 64), ("CPUsState", 32), ("GresUsed", 128), ("Gres", 128), ("Reason", 128))
SDIAG = {
    "DBD Agent queue size": "slurm_dbd_queue",
    "Server thread count": "slurm_threads",
    "Agent queue size": "slurm_agent_queue",
}
DOWN = {"down", "fail", "failing", "not_responding", "unknown", "power_down", "powered_down"}
Sample = tuple[str, dict[str, str], float]


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


def queues(text: str) -> Iterator[Sample]:
    """Yield what sdiag counts; a name that begins like another is told apart by the whole line."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        metric = SDIAG.get(name.strip())
        if metric is not None and value.strip().isdigit():
            yield metric, {}, int(value.strip()[:12])


def accounting(place: dict[str, str]) -> Iterator[Sample]:
    """Yield whether slurmdbd answers from its database. `place` has its node's labels, or none for the site's."""
    command = ("sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=cluster")
    try:
        answered = asked(*command, limit_s=ACCOUNTING_S).returncode == 0
    except subprocess.TimeoutExpired:
        answered = False
    yield "slurm_accounting_answers", place, answered


def number(pattern: str, text: str) -> int:
    """The first number that a pattern finds, or 0."""
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def total_of(pattern: str, text: str) -> int:
    """The sum of all that it finds."""
    return sum(map(int, re.findall(pattern, text)))


def lines(samples: Iterable[Sample]) -> Iterator[str]:
    """Yield the text format: all samples of a metric together."""
    by_name: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in samples:
        by_name.setdefault(name, []).append((labels, value))
    for name, several in by_name.items():
        yield f"# TYPE {name} gauge"
        for labels, value in several:
            shown = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
            yield f"{name}{{{shown}}} {value:g}" if shown else f"{name} {value:g}"


def escaped(text: str) -> str:
    """A text as the value of a label."""
    plain = "".join(char if char.isprintable() else "?" for char in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def said(*command: str) -> str:
    """What a command prints. Where it fails so does this program: half a picture is none."""
    try:
        done = asked(*command, limit_s=LIMIT_S)
    except subprocess.TimeoutExpired:
        sys.exit(f"{command[0]}: no end within {LIMIT_S} s")
    except MemoryError:
        sys.exit(f"{command[0]}: more than {MOST_BYTES >> 20} MiB")
    if done.returncode != 0:
        sys.exit(f"{command[0]}: {done.stderr.decode(errors='replace').strip()[:300]}")
    return done.stdout.decode(errors="replace")


def asked(*command: str, limit_s: float) -> "subprocess.CompletedProcess[bytes]":
    """Run a command to its end."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip


def main() -> None:
    """Print all of it."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))  # of squeue, too
    with open(WANTED, encoding="utf-8") as file:
        wanted = json.load(file)
    found = [
        *jobs(said("squeue", "--noheader", "--array", "--all", f"--Format={columns(JOBS)}")),
        *nodes(said("sinfo", "--noheader", "--Node", "--all", f"--Format={columns(NODES)}"), wanted["racks"]),
        *queues(said("sdiag")),
    ]
    if wanted["accounting"] is not None:
        found += accounting(wanted["accounting"])
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()
