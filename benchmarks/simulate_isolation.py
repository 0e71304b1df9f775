"""Isolation on simulated clusters: the code that `hpcforge verify` runs, with measurements made up from planted faults.

`python -m benchmarks.simulate_isolation` (`make simulate-isolation`) prints a row for each kind of fault_kinds.py and
number of nodes; `--runs`, `--nodes` and `--kind` take fewer. `--healthy 10000` is as many runs without a fault,
`--mixtures 10000` as many with three faults of any kind, `--coverage` what is loaded with each number of nodes, and
`--steps` the CPU time of a step.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.fault_kinds import BY_NAME, KINDS, FaultKind, expected, plant, touches
from benchmarks.simulated_cluster import Fault, World, fabric_of, without_plan
from hpcforge.isolation.cover import not_loaded
from hpcforge.isolation.state import BadPart, Conclusion, Round
from hpcforge.isolation.step import MOST_ROUNDS, begin, step
from hpcforge.isolation.wiring import NodeWiring

SIZES = (2, 3, 4, 5, 6, 8, 12, 16, 32, 33, 64, 128, 232, 256, 512, 1024, 2048)
PORTS = {8: 8, 32: 16}  # of switches, by the number of nodes: several leaves of few nodes; others have 64
CLASSES = ("exact", "right place", "missed", "wrong")


@dataclass
class Run:
    """How one run of isolation ended, and what it took."""

    outcome: Conclusion
    rounds: int
    step_ms: float  # the slowest


def isolate(world: World, plan: bool = True) -> Run:
    """Measure and step until there are names. Raises RuntimeError where there are none after the last round."""
    state, turn = begin(world.wiring if plan else without_plan(world.wiring))
    now: Round | Conclusion = turn
    slowest, rounds = 0.0, 0
    while isinstance(now, Round):
        if now.number > MOST_ROUNDS:
            raise RuntimeError(f"round {now.number}: isolation must end in {MOST_ROUNDS}")
        results = world.measure(now)
        began = time.thread_time()
        state, now = step(state, now, results)
        slowest = max(slowest, (time.thread_time() - began) * 1000)
        rounds += 1
    return Run(now, rounds, slowest)


def classed(of: NodeWiring, findings: Sequence[BadPart], faults: Sequence[Fault], plan: bool = True) -> str:
    """Which of CLASSES a run is: a healthy part that is named makes it wrong, whatever else is named."""
    bad = [part for each in findings if each.verdict != "could not tell" for part in each.parts]
    if any(not any(touches(of, part, fault, plan) for fault in faults) for part in bad):
        return "wrong"
    doubtful = [each for each in findings if each.verdict == "could not tell"]
    named = {part for part in bad if part.kind != "pair" or plan}
    if not doubtful and {*expected(of, faults)} == named:
        return "exact"
    if any(not any(touches(of, part, fault, plan) for part in bad) for fault in faults) and not doubtful:
        return "missed"
    return "right place"


@dataclass
class Row:
    """Runs with the same number of nodes and kind of fault."""

    nodes: int
    what: str
    count: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    most_rounds: int = 0
    step_ms: float = 0.0

    def add(self, run: Run, outcome: str) -> None:
        """Count a run."""
        self.count[outcome] += 1
        self.rounds += run.rounds
        self.most_rounds = max(self.most_rounds, run.rounds)
        self.step_ms = max(self.step_ms, run.step_ms)

    def cells(self) -> list[str]:
        """The row of the table."""
        runs = self.count.total()
        parts = [f"{100 * self.count[each] / runs:.4g}" for each in CLASSES]
        return [f"{self.nodes:,}", self.what, f"{runs:,}", *parts, f"{self.rounds / runs:.1f} ({self.most_rounds})"]


HEADER = ["nodes", "planted", "runs", "exact %", "right place %", "missed %", "wrong %", "rounds (most)"]


def simulated(nodes: int) -> NodeWiring:
    """The wiring of a size of the table."""
    return fabric_of(nodes, ports=PORTS.get(nodes, 64))


def simulate(of: NodeWiring, kind: FaultKind, seeds: Sequence[int], glitches: float) -> Row | None:
    """Run isolation with each seed; None: this cluster has no part to plant such a fault in."""
    row = Row(len(of.nodes), kind.name)
    for seed in seeds:
        faults = plant(of, seed, kind.plants)
        if len(faults) < len(kind.plants):
            return None
        run = isolate(World(of, seed, faults, glitches, kind.routes), kind.plan)
        row.add(run, classed(of, run.outcome.findings, faults, kind.plan))
    return row


def rows(kinds: Sequence[FaultKind], sizes: Sequence[int], runs: int, seed: int, glitches: float) -> Iterator[Row]:
    """The table. Above 256 nodes a twentieth of the runs."""
    for nodes in sizes:
        of = simulated(nodes)
        for kind in kinds:
            count = runs if nodes <= 256 else max(1, runs // 20)
            row = simulate(of, kind, range(seed, seed + count), glitches)
            if row:
                yield row


def mixture(seed: int) -> FaultKind:
    """Three faults of any kind, each where it is by itself."""
    chosen = random.Random(seed)  # noqa: S311
    plants = [each for kind in KINDS for each in kind.plants]
    of = chosen.choice(KINDS)
    return FaultKind("three faults", tuple(chosen.choices(plants, k=3)), of.plan, of.routes)


def mixtures(runs: int, seed: int, glitches: float) -> Iterator[Row]:
    """Runs with three faults of any kind, by turns with each number of nodes to 64."""
    fabrics = [simulated(nodes) for nodes in SIZES if nodes <= 64]
    found = [Row(len(of.nodes), "three of any kind") for of in fabrics]
    for number in range(seed, seed + runs):
        of, row, kind = fabrics[number % len(fabrics)], found[number % len(fabrics)], mixture(number)
        faults = plant(of, number, kind.plants)
        run = isolate(World(of, number, faults, glitches, kind.routes), kind.plan)
        row.add(run, classed(of, run.outcome.findings, faults, kind.plan))
    yield from (row for row in found if row.count)


def covered(nodes: int) -> tuple[int, int, int]:
    """Cables and uplinks that a healthy run leaves without traffic; uplinks of full leaves; those loaded one way."""
    of = fabric_of(nodes)
    state, turn = begin(of)
    world, now = World(of, 1, (), 0.0), turn
    while isinstance(now, Round) and now.number <= 3:
        state, now = step(state, now, world.measure(now))  # type: ignore[assignment]
    parts, one_way = not_loaded(state)
    cables = sum(part.kind == "cable" for part in parts)
    full = {leaf for leaf, links in of.on_leaf.items() if len(links) >= of.uplinks[leaf]}
    uplinks = sum(part.kind == "uplink" and part.of in full for part in parts) if len(of.units) > 1 else 0
    return cables, uplinks, one_way


def coverage(sizes: Sequence[int]) -> None:
    """Print what a healthy run leaves without traffic."""
    missed = [(nodes, *left) for nodes in sizes for left in (covered(nodes),) if left[0] or left[1]]
    some = [(nodes, covered(nodes)[2]) for nodes in (33, 232, 1000)]
    print(f"{len(sizes)} numbers of nodes, {len(missed)} with a cable, or an uplink of a full leaf, without traffic")
    for nodes, cables, uplinks, one_way in missed[:20]:
        print(f"  {nodes:>5}: {cables} cables, {uplinks} uplinks; {one_way} uplinks one way")
    print(f"uplinks loaded one way alone: {', '.join(f'{one_way} with {nodes} nodes' for nodes, one_way in some)}")


def steps() -> None:
    """Print the CPU time of a step: the slowest of a run, as the median of five runs and the most."""
    print(f"{'nodes':>6} {'planted':<20} {'median, ms':>10} {'most, ms':>9}")
    for nodes in (232, 2048):
        of = fabric_of(nodes)
        for name in ("healthy", "three cables", "uplink x0.5"):
            faults = [plant(of, seed, BY_NAME[name].plants) for seed in range(5)]
            runs = [isolate(World(of, seed, faults[seed], 1 / 500)) for seed in range(5)]
            times = sorted(run.step_ms for run in runs)
            print(f"{nodes:>6,} {name:<20} {times[2]:>10.0f} {times[-1]:>9.0f}", flush=True)


def main() -> None:
    """Print the table, or what the options name."""
    parser = argparse.ArgumentParser(description="Isolation on simulated clusters.")
    parser.add_argument("--runs", type=int, default=1000, help="runs of each row (default: 1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, nargs="*", default=SIZES, help="numbers of nodes")
    parser.add_argument("--kind", nargs="*", default=[*BY_NAME], choices=[*BY_NAME], metavar="KIND")
    parser.add_argument("--glitches", type=float, default=1 / 500, help="part of measurements that are 30 %% low")
    parser.add_argument("--healthy", type=int, default=0, help="only so many runs without a fault")
    parser.add_argument("--mixtures", type=int, default=0, help="only so many runs with three faults")
    parser.add_argument("--steps", action="store_true", help="only the CPU time of steps with 232 and 2,048 nodes")
    parser.add_argument("--coverage", action="store_true", help="only what is loaded, from 2 to 2,048 nodes")
    given = parser.parse_args()
    if given.coverage or given.steps:
        coverage(range(2, 2049)) if given.coverage else steps()
        return
    kinds, runs = [BY_NAME[name] for name in given.kind], given.healthy or given.runs
    table = rows(kinds[:1] if given.healthy else kinds, given.nodes, runs, given.seed, given.glitches)
    if given.mixtures:
        table = mixtures(given.mixtures, given.seed, given.glitches)
    print(f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}")
    for row in table:
        print(f"| {' | '.join(row.cells())} |", flush=True)


if __name__ == "__main__":
    main()
