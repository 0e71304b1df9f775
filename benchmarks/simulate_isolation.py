"""Isolation on simulated clusters: the code that `hpcforge verify` runs, with measurements made up from planted faults.

Run it as `python benchmarks/simulate_isolation.py` (`make simulate-isolation`); `--healthy 10000` for as many runs
without a fault, `--coverage` for the parts that are loaded with each number of nodes from 2 to 2,048.

The fabric is rail-optimised, 8 rails of 64-port switches, as `hpcforge design` builds it. Each part is between 0.95 and
1 of its rate, each measurement has noise of 1 %, and one in 500 (`--glitches`) is 30 % low. Routes are static.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hpcforge.fabric.build import build
from hpcforge.fabric.spec import Ask, Model
from hpcforge.isolation.cover import not_loaded
from hpcforge.isolation.state import Conclusion, Kind, NodeValues, Part, Results, Round
from hpcforge.isolation.step import begin, step
from hpcforge.isolation.wiring import NodeWiring, wiring

SPREAD, NOISE, GLITCH = 0.05, 0.01, 0.7
GPUS = 8


@dataclass(frozen=True)
class Fault:
    """A part that is slower by a factor; 0: it gives no answer."""

    part: Part
    factor: float


def fabric_of(nodes: int, rails: int = 8) -> NodeWiring:
    """The wiring of so many nodes."""
    switch = Model("64-port", 64, 64)
    names = tuple(f"g{number:04}" for number in range(1, nodes + 1))
    ask = Ask("compute", "infiniband", "rail-optimised", 400, 400, names, switch, switch, rails)
    return wiring(names, build(ask))


class World:
    """A cluster that can be measured: factors of its parts, by a seed, and the faults that are planted."""

    def __init__(self, of: NodeWiring, seed: int, faults: Sequence[Fault], glitches: float) -> None:
        self.wiring, self.random, self.glitches = of, random.Random(seed), glitches  # noqa: S311
        healthy = self.random.uniform
        count = range(len(of.nodes))
        self.gpu = [[healthy(1 - SPREAD, 1) for _ in range(GPUS)] for _ in count]
        self.adapter = [[healthy(1 - SPREAD, 1) for _ in range(of.rails)] for _ in count]
        self.cable = [[healthy(1 - SPREAD, 1) for _ in range(of.rails)] for _ in count]
        self.uplink = [[healthy(1 - SPREAD, 1) for _ in range(uplinks)] for uplinks in of.uplinks]
        self.leaf = [1.0] * len(of.uplinks)
        self.dead: set[int] = set()
        self.pairs: dict[tuple[int, int], float] = {}
        for fault in faults:
            self._plant(fault)

    def _plant(self, fault: Fault) -> None:
        kind, of, at = fault.part
        if kind == "node" and not fault.factor:
            self.dead.add(of)
        elif kind == "node":
            self.gpu[of] = [each * fault.factor for each in self.gpu[of]]
        elif kind == "pair":
            self.pairs[of, at] = fault.factor
        elif kind == "leaf":
            self.leaf[of] = fault.factor
        elif kind == "uplinks":
            self.uplink[of] = [each * fault.factor for each in self.uplink[of]]
        elif kind == "rail":
            for cables in self.cable:
                cables[of] *= fault.factor
        else:
            getattr(self, kind)[of][at] *= fault.factor

    def measure(self, asked: Round) -> Results:
        """The values of a round."""
        alone = {test.node: self._node(test.node) for test in asked.alone if test.node not in self.dead}
        pairs = {}
        for a, b, _ in asked.pairs:
            if self.pairs.get((a, b)) != 0 and self.dead.isdisjoint((a, b)):
                rails = range(self.wiring.rails)
                pairs[a, b] = tuple(self._rate(*way, rail) for rail in rails for way in ((a, b), (b, a)))
        return Results(alone, pairs)

    def _node(self, node: int) -> NodeValues:
        return NodeValues(tuple(map(self._seen, self.gpu[node])), tuple(map(self._seen, self.adapter[node])))

    def _rate(self, source: int, target: int, rail: int) -> float:
        wiring = self.wiring
        rate = min(*(each[node][rail] for each in (self.cable, self.adapter) for node in (source, target)))
        if wiring.known:
            up, down = wiring.leaf[source][rail], wiring.leaf[target][rail]
            rate *= min(self.leaf[up], self.leaf[down])
            if up != down:
                for leaf in (up, down):
                    number = wiring.uplink(leaf, target, rail)
                    rate = min(rate, self.uplink[leaf][number]) if number is not None else rate
        return self._seen(rate * self.pairs.get((min(source, target), max(source, target)), 1.0))

    def _seen(self, rate: float) -> float:
        chance = self.random.random()
        return rate * self.random.gauss(1, NOISE) * (GLITCH if chance < self.glitches else 1.0)


@dataclass
class Run:
    """What one run of isolation found, and what it took."""

    outcome: Conclusion
    rounds: int
    step_ms: float  # the slowest


def isolate(world: World) -> Run:
    """Measure and step until there are names."""
    told: Round | Conclusion
    state, told = begin(world.wiring)
    slowest = 0.0
    while isinstance(told, Round):
        asked = told
        results = world.measure(asked)
        began = time.thread_time()
        state, told = step(state, asked, results)
        slowest = max(slowest, (time.thread_time() - began) * 1000)
    return Run(told, len(state.rounds), slowest)


FAULTS: tuple[tuple[Kind, float], ...] = (
    ("node", 0.0),
    ("node", 0.9),
    ("gpu", 0.6),
    ("cable", 0.5),
    ("uplink", 0.5),
    ("adapter", 0.5),
)
RARE: tuple[tuple[Kind, float], ...] = (("uplinks", 0.5), ("leaf", 0.5), ("rail", 0.5), ("pair", 0.0))


@dataclass(frozen=True)
class Turns:
    """Faults of some kinds, by turns."""

    kinds: Sequence[tuple[Kind, float]]
    number: int

    def __call__(self, of: NodeWiring, seed: int) -> list[Fault]:
        """Those of a run."""
        return planted(of, seed, self.kinds, self.number)


def planted(of: NodeWiring, seed: int, kinds: Sequence[tuple[Kind, float]], number: int) -> list[Fault]:
    """Faults by turns, each in a part of its own."""
    chosen, found = random.Random(-seed - 1), list[Fault]()  # noqa: S311
    full = [leaf for leaf, links in of.on_leaf.items() if len(links) >= of.uplinks[leaf]]
    loadable = [Part("uplink", leaf, up) for leaf in full for up in range(of.uplinks[leaf]) if len(of.units) > 1]
    used: set[int] = set()
    while len(found) < number:
        kind, factor = kinds[(seed + len(found)) % len(kinds)]
        node = chosen.randrange(len(of.nodes))
        rail = chosen.randrange(of.rails)
        if node in used:
            continue
        leaf = of.leaf[node][rail] if of.known else 0
        if kind == "uplink" and not loadable:
            kind, factor = "cable", 0.5
        if kind == "uplink":
            part = chosen.choice(loadable)
        else:
            part = {
                "gpu": Part("gpu", node, chosen.randrange(GPUS)),
                "cable": Part("cable", node, rail),
                "adapter": Part("adapter", node, rail),
                "uplinks": Part("uplinks", leaf),
                "leaf": Part("leaf", leaf),
                "rail": Part("rail", rail),
                "pair": Part("pair", *sorted((node, _neighbour(of, node)))),
            }.get(kind, Part("node", node))
        used.add(node)
        found.append(Fault(part, factor))
    return found


def _neighbour(of: NodeWiring, node: int) -> int:
    unit = of.units[of.unit_of[node]]
    place = unit.index(node)
    return unit[place ^ 1] if place ^ 1 < len(unit) else unit[place - 1]


@dataclass
class Row:
    """Runs with the same number of nodes and faults."""

    nodes: int
    what: str
    runs: int = 0
    rounds: int = 0
    exact: int = 0
    could_not_tell: int = 0
    accused: int = 0  # runs that name a part as bad that is not
    unsteady: int = 0  # runs that name a healthy part as unsteady
    step_ms: float = 0.0
    worst_rounds: int = 0

    def add(self, run: Run, faults: Sequence[Fault]) -> None:
        """Count a run."""
        bad = {part for finding in run.outcome.findings if finding.verdict == "bad" for part in finding.parts}
        true = {fault.part for fault in faults}
        self.runs += 1
        self.rounds += run.rounds
        self.worst_rounds = max(self.worst_rounds, run.rounds)
        self.exact += bad == true and all(finding.verdict == "bad" for finding in run.outcome.findings)
        self.could_not_tell += any(finding.verdict == "could not tell" for finding in run.outcome.findings)
        self.accused += not bad <= true
        self.unsteady += any(f.verdict == "unsteady" and not {*f.parts} <= true for f in run.outcome.findings)
        self.step_ms = max(self.step_ms, run.step_ms)

    def text(self) -> str:
        """The row of the table."""
        return (
            f"{self.nodes:>5} {self.what:<16} {self.runs:>6} {self.rounds / self.runs:>7.2f} {self.worst_rounds:>5} "
            f"{100 * self.exact / self.runs:>7.2f} {100 * self.could_not_tell / self.runs:>8.2f} "
            f"{self.accused:>8} {self.unsteady:>8} {self.step_ms:>8.1f}"
        )


HEADER = (
    f"{'N':>5} {'faults':<16} {'runs':>6} {'rounds':>7} {'most':>5} {'exact %':>7} {'no tell %':>8} "
    f"{'accused':>8} {'unsteady':>8} {'step ms':>8}"
)


def simulate(
    nodes: int, what: str, runs: int, seed: int, glitches: float, faults: Callable[[NodeWiring, int], list[Fault]]
) -> Row:
    """Run isolation with other seeds."""
    of, row = fabric_of(nodes), Row(nodes, what)
    for number in range(runs):
        there = faults(of, seed + number)
        row.add(isolate(World(of, seed + number, there, glitches)), there)
    return row


def rows(runs: int, seed: int, glitches: float) -> Iterator[Row]:
    """The table."""
    for nodes in (8, 32, 232, 1024, 2048):
        count = max(4, runs if nodes <= 232 else runs // 10)
        yield simulate(nodes, "none", count, seed, glitches, lambda _of, _seed: [])
        for number in (1, 2, 5) if nodes > 8 else (1, 2):
            yield simulate(nodes, f"{number} by turns", count, seed, glitches, Turns(FAULTS, number))
    for kind in (*FAULTS, *RARE):
        name = f"{kind[0]} x{kind[1]:g}"
        yield simulate(232, name, max(4, runs // 4), seed, glitches, Turns([kind], 1))


def covered(nodes: int) -> tuple[int, int, int]:
    """Cables and uplinks that a healthy run leaves without traffic; uplinks of full leaves; those loaded one way."""
    of = fabric_of(nodes)
    told: Round | Conclusion
    state, told = begin(of)
    world = World(of, 1, (), 0.0)
    while isinstance(told, Round) and told.number <= 3:
        state, told = step(state, told, world.measure(told))
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


def main() -> None:
    """Print the table, or what was asked for."""
    parser = argparse.ArgumentParser(description="Isolation on simulated clusters.")
    parser.add_argument("--runs", type=int, default=200, help="runs of each row (default: 200)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--glitches", type=float, default=1 / 500, help="part of measurements that are 30 %% low")
    parser.add_argument("--healthy", type=int, default=0, help="only runs of 232 nodes without a fault, so many")
    parser.add_argument("--coverage", action="store_true", help="only what is loaded, from 2 to 2,048 nodes")
    asked = parser.parse_args()
    if asked.coverage:
        coverage(range(2, 2049))
        return
    print(f"one measurement in {1 / asked.glitches:.0f} is 30 % low\n{HEADER}" if asked.glitches else HEADER)
    if asked.healthy:
        print(simulate(232, "none", asked.healthy, asked.seed, asked.glitches, lambda _of, _seed: []).text())
        return
    for row in rows(asked.runs, asked.seed, asked.glitches):
        print(row.text(), flush=True)


if __name__ == "__main__":
    main()
