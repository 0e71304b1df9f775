"""Faults as data: planted on the nodes of a lab, removed again, and compared with what `hpcforge verify` found."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hpcforge.blueprint.hostlist import expand
from hpcforge.lab import lab as labs
from tests.support.real_site import Rehearsal

_SYSTEMD = Path("/sys/fs/cgroup/systemd")


@dataclass(frozen=True)
class Found:
    """A part that a verification named: its kind is that of the isolation, else the name of the test."""

    status: str
    kind: str
    nodes: tuple[str, ...]
    says: str = ""


@dataclass(frozen=True)
class Fault:
    """A fault, the commands that plant and remove it by node set, and what must be named."""

    name: str
    node: str
    plant: Mapping[str, str]
    remove: Mapping[str, str]
    test: str
    expected: Found


@dataclass(frozen=True)
class Outcome:
    """What a verification said of a fault, or of healthy nodes if there is none."""

    fault: Fault | None
    code: int
    found: tuple[Found, ...] = ()
    detail: str = ""
    seconds: float = 0.0
    times: Mapping[str, float] = field(default_factory=dict)  # by test

    @property
    def hit(self) -> bool:
        """Whether exactly the right part was named, with its kind; of healthy nodes, that none was."""
        if self.fault is None:
            return self.code == 0 and not self.found
        expected = self.fault.expected
        right = [
            (part.status, part.kind, part.nodes) == (expected.status, expected.kind, expected.nodes)
            and expected.says in part.says
            for part in self.found
        ]
        return self.code == 7 and bool(right) and all(right)


def read_faults(path: Path) -> tuple[str, list[Fault]]:
    """The shell functions and the faults of a file."""
    written = yaml.safe_load(path.read_text())
    return written["functions"], [_fault(name, entry) for name, entry in written["faults"].items()]


def _fault(name: str, entry: Mapping[str, Any]) -> Fault:
    expect = entry["expect"]
    part = Found(expect["status"], expect.get("kind", expect["test"]), tuple(expect["nodes"]), expect.get("says", ""))
    return Fault(name, entry["node"], entry["plant"], entry["remove"], expect["test"], part)


@contextmanager
def planted(site: Rehearsal, functions: str, fault: Fault, folder: Path) -> Iterator[None]:
    """Plant a fault; whatever happens, remove it."""
    folder.mkdir()
    try:
        for place, script in fault.plant.items():
            _run(site, functions, fault.node, place, script, folder)
        yield
    finally:
        for place, script in fault.remove.items():
            _run(site, functions, fault.node, place, script, folder)
        shutil.rmtree(folder)
        ready(site)


def _run(site: Rehearsal, functions: str, node: str, place: str, script: str, folder: Path) -> None:
    """A script of a fault on this machine, or on each of some nodes."""
    lab = labs.load(site.lab)
    assert lab is not None
    variables = {name: lab.node(name).address for name in ("head", *expand("w[01-08]"))}
    if place == "host":
        machine = lab.machine(node)
        (init,) = (_SYSTEMD / f"hpcforge-{machine}").rglob("init.scope/cgroup.procs")
        variables |= {"node": node, "machine": machine, "folder": str(folder), "leader": init.read_text().split()[0]}
    text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items()) + functions + script
    if place == "host":
        process = subprocess.run(["sh", "-ec", text], capture_output=True, text=True, timeout=120, check=False)
        assert process.returncode == 0, f"{script}\n{process.stderr}"
        return
    for name in expand(place):
        site.inside(name, f"sudo sh -ec {shlex.quote(text)}")


def ready(site: Rehearsal) -> None:
    """Wait until all nodes are idle; those that a check has drained return to service."""
    states = "sinfo --noheader --Node --format='%N %T'"
    until = time.monotonic() + 300
    while True:
        away = [line.split() for line in site.inside("head", states).splitlines() if not line.endswith(" idle")]
        if not away:
            return
        assert time.monotonic() < until, away
        for node in (name for name, state in away if state.startswith(("drain", "down"))):
            site.inside("head", f"sudo scontrol update NodeName={node} State=RESUME || true")
        time.sleep(1)


def verified(site: Rehearsal, blueprint: Path, fault: Fault | None, *options: str) -> Outcome:
    """Run `hpcforge verify`, and read what it found."""
    began = time.monotonic()
    process = site.tried("verify", str(blueprint), "--json", *options)
    document = json.loads(process.stdout) if process.stdout else {"verdicts": []}
    verdicts = document["verdicts"]
    parts = [part for verdict in verdicts if verdict["status"] != "passed" for part in _parts(verdict)]
    parts += [Found("fell out", "node", (node,), reason) for node, reason in document.get("fell_out", {}).items()]
    parts += [Found("left out", "node", (node,), reason) for node, reason in document.get("left_out", {}).items()]
    detail = "; ".join(part.says for part in parts)
    times = {verdict["test"]: verdict["seconds"] for verdict in verdicts}
    return Outcome(fault, process.returncode, tuple(parts), detail, round(time.monotonic() - began, 1), times)


def _parts(verdict: Mapping[str, Any]) -> Iterator[Found]:
    """The parts that a verdict names: those of the isolation, or its node."""
    parts = verdict["isolation"]["named"] if verdict["isolation"] else []
    for part in parts:
        yield Found(verdict["status"], part["kind"], tuple(part["nodes"]), part["detail"])
    if not parts:
        nodes = (verdict["node"],) if verdict["node"] else ()
        yield Found(verdict["status"], verdict["test"], nodes, verdict["detail"])


def table(outcomes: list[Outcome], when: str) -> str:
    """A dated table in Markdown: each fault with what was found, and the sums."""
    faults = [outcome for outcome in outcomes if outcome.fault is not None]
    healthy = [outcome for outcome in outcomes if outcome.fault is None]
    rows = [_row(outcome, outcome.fault) for outcome in outcomes if outcome.fault is not None]
    hits, false = sum(outcome.hit for outcome in faults), sum(not outcome.hit for outcome in healthy)
    seconds = sorted(round(outcome.seconds) for outcome in healthy) or [0]
    sums = f"{when}: {hits} hits, {len(faults) - hits} misses; {false} false alarms in {len(healthy)} healthy runs"
    details = [f"- {outcome.detail}" for outcome in healthy if not outcome.hit]
    lines = [
        "| planted | verdict | s |",
        "|---|---|---|",
        *rows,
        "",
        f"{sums}, {seconds[0]} to {seconds[-1]} s.",
        *details,
    ]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome, fault: Fault) -> str:
    parts = "; ".join(f"{part.status}: {part.kind} {', '.join(part.nodes)}" for part in outcome.found) or "passed"
    miss = "" if outcome.hit else "**miss** "
    return f"| {fault.node}: {fault.name} | {miss}{fault.test} {parts} | {outcome.seconds:.0f} |"
