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
            (each.status, each.kind, each.nodes) == (expected.status, expected.kind, expected.nodes)
            and expected.says in each.says
            for each in self.found
        ]
        return self.code == 7 and bool(right) and all(right)


def read_faults(path: Path) -> tuple[str, list[Fault]]:
    """The shell functions and the faults of a file."""
    written = yaml.safe_load(path.read_text())
    return written["functions"], [_fault(name, each) for name, each in written["faults"].items()]


def _fault(name: str, each: Mapping[str, Any]) -> Fault:
    expect = each["expect"]
    part = Found(expect["status"], expect.get("kind", expect["test"]), tuple(expect["nodes"]), expect.get("says", ""))
    return Fault(name, each["node"], each["plant"], each["remove"], expect["test"], part)


@contextmanager
def planted(site: Rehearsal, functions: str, fault: Fault, folder: Path) -> Iterator[None]:
    """Plant a fault; whatever happens, remove it."""
    folder.mkdir()
    try:
        for where, script in fault.plant.items():
            _run(site, functions, fault.node, where, script, folder)
        yield
    finally:
        for where, script in fault.remove.items():
            _run(site, functions, fault.node, where, script, folder)
        shutil.rmtree(folder)
        ready(site)


def _run(site: Rehearsal, functions: str, node: str, where: str, script: str, folder: Path) -> None:
    """A script of a fault on this machine, or on each of some nodes."""
    lab = labs.load(site.lab)
    assert lab is not None
    known = {name: lab.node(name).address for name in ("head", *expand("w[01-08]"))}
    if where == "host":
        machine = lab.machine(node)
        (init,) = (_SYSTEMD / f"hpcforge-{machine}").rglob("init.scope/cgroup.procs")
        known |= {"node": node, "machine": machine, "folder": str(folder), "leader": init.read_text().split()[0]}
    text = "".join(f"{name}={shlex.quote(value)}\n" for name, value in known.items()) + functions + script
    if where == "host":
        done = subprocess.run(["sh", "-ec", text], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{script}\n{done.stderr}"
        return
    for name in expand(where):
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
    done = site.tried("verify", str(blueprint), "--json", *options)
    document = json.loads(done.stdout) if done.stdout else {"verdicts": []}
    verdicts = document["verdicts"]
    found = [part for verdict in verdicts if verdict["status"] != "passed" for part in _parts(verdict)]
    found += [Found("fell out", "node", (node,), why) for node, why in document.get("fell_out", {}).items()]
    found += [Found("left out", "node", (node,), why) for node, why in document.get("left_out", {}).items()]
    detail = "; ".join(part.says for part in found)
    times = {verdict["test"]: verdict["seconds"] for verdict in verdicts}
    return Outcome(fault, done.returncode, tuple(found), detail, round(time.monotonic() - began, 1), times)


def _parts(verdict: Mapping[str, Any]) -> Iterator[Found]:
    """The parts that a verdict names: those of the isolation, or its node."""
    named = verdict["isolation"]["named"] if verdict["isolation"] else []
    for each in named:
        yield Found(verdict["status"], each["kind"], tuple(each["nodes"]), each["detail"])
    if not named:
        nodes = (verdict["node"],) if verdict["node"] else ()
        yield Found(verdict["status"], verdict["test"], nodes, verdict["detail"])


def table(outcomes: list[Outcome], when: str) -> str:
    """A dated table in Markdown: each fault with what was found, and the sums."""
    faults = [each for each in outcomes if each.fault is not None]
    healthy = [each for each in outcomes if each.fault is None]
    rows = [_row(each, each.fault) for each in outcomes if each.fault is not None]
    hits, false = sum(each.hit for each in faults), sum(not each.hit for each in healthy)
    seconds = sorted(round(each.seconds) for each in healthy) or [0]
    sums = f"{when}: {hits} hits, {len(faults) - hits} misses; {false} false alarms in {len(healthy)} healthy runs"
    said = [f"- {each.detail}" for each in healthy if not each.hit]
    lines = [
        "| planted | verdict | s |",
        "|---|---|---|",
        *rows,
        "",
        f"{sums}, {seconds[0]} to {seconds[-1]} s.",
        *said,
    ]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome, fault: Fault) -> str:
    named = "; ".join(f"{part.status}: {part.kind} {', '.join(part.nodes)}" for part in outcome.found) or "passed"
    miss = "" if outcome.hit else "**miss** "
    return f"| {fault.node}: {fault.name} | {miss}{fault.test} {named} | {outcome.seconds:.0f} |"
