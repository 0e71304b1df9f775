"""Clusters that exist as numbers: their parts, faults that are planted, and what a round of measurements returns.

Each part is between 0.95 and 1 of its rate. Each measurement has noise of 1 %, and some (`glitches`) are 30 % low.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.spec import Ask, Model
from hpcforge.isolation.state import NodeValues, Part, Results, Round
from hpcforge.isolation.wiring import NodeWiring, wiring

SPREAD, NOISE, GLITCH = 0.05, 0.01, 0.7
GPUS = 8
# adaptive: each measurement takes any uplink; spread: each takes all of them, packet by packet
Routes = Literal["by place", "hashed", "adaptive", "spread"]


@dataclass(frozen=True)
class Fault:
    """A part that is slower by a factor; 0: it gives no answer. `of`: what of a node is slow."""

    part: Part
    factor: float
    way: Literal["", "out", "in"] = ""  # in one direction only
    chance: float = 1.0  # of each measurement through it
    until: int = 0  # the last round in which it is slow; 0: it stays slow
    of: Literal["compute", "network", "both"] = "compute"


def fabric_of(nodes: int, rails: int = 8, ports: int = 64) -> NodeWiring:
    """The wiring of so many nodes, by the plan that `hpcforge design` makes of switches with so many ports."""
    switch = Model(f"{ports}-port", ports, ports)
    names = tuple(f"g{number:04}" for number in range(1, nodes + 1))
    ask = Ask("compute", "infiniband", "rail-optimised", 400, 400, names, switch, switch, rails)
    return wiring(names, build(ask))


def without_plan(of: NodeWiring) -> NodeWiring:
    """The same nodes where no plan tells how they are wired."""
    return NodeWiring(of.nodes, of.rails)


class World:
    """A cluster that can be measured: factors of its parts, by a seed, and the faults that are planted."""

    def __init__(
        self, of: NodeWiring, seed: int, faults: Sequence[Fault], glitches: float, routes: Routes = "by place"
    ) -> None:
        self.wiring, self.random, self.glitches = of, random.Random(seed), glitches  # noqa: S311
        self.routes, self.seed, self.round = routes, seed, 0
        healthy = self.random.uniform
        count = range(len(of.nodes))
        self.gpu = [[healthy(1 - SPREAD, 1) for _ in range(GPUS)] for _ in count]
        self.adapter = [[healthy(1 - SPREAD, 1) for _ in range(of.rails)] for _ in count]
        self.cable = [[healthy(1 - SPREAD, 1) for _ in range(of.rails)] for _ in count]
        self.uplink = [[healthy(1 - SPREAD, 1) for _ in range(uplinks)] for uplinks in of.uplinks]
        self.faults = faults
        self.dead = {each.part.of for each in faults if each.part.kind == "node" and not each.factor}

    def measure(self, now: Round) -> Results:
        """The values of a round."""
        self.round = now.number
        alone = {test.node: self._node(test.node) for test in now.alone if test.node not in self.dead}
        pairs = {}
        for a, b, _ in now.pairs:
            ways = [(*way, rail) for rail in range(self.wiring.rails) for way in ((a, b), (b, a))]
            rates = [self._rate(*way) for way in ways if self.dead.isdisjoint((a, b))]
            if any(rates):
                pairs[a, b] = tuple(self._noisy(rate) for rate in rates)
        return Results(alone, pairs)

    def _node(self, node: int) -> NodeValues:
        gpus, adapters = [*self.gpu[node]], [*self.adapter[node]]
        for fault in self.faults:
            kind, of, at = fault.part
            if of == node and kind in ("node", "gpu", "adapter"):
                if kind == "gpu" or (kind == "node" and fault.of != "network"):
                    for gpu in (at,) if kind == "gpu" else range(GPUS):
                        gpus[gpu] *= self._factor(fault)
                elif kind == "adapter":
                    adapters[at] *= self._factor(fault)
        return NodeValues(tuple(map(self._noisy, gpus)), tuple(map(self._noisy, adapters)))

    def _rate(self, source: int, target: int, rail: int) -> float:
        """Of a value: the slowest part on its way."""
        of = self.wiring
        rates = [each[node][rail] for each in (self.cable, self.adapter) for node in (source, target)]
        ups: dict[int, int] = {}
        if of.crosses(source, target, rail):
            for leaf in (of.leaf[source][rail], of.leaf[target][rail]):
                if of.uplinks[leaf] and self.routes == "spread":
                    ups[leaf] = -1
                    rates.append(self._over_all(leaf))
                elif of.uplinks[leaf]:
                    ups[leaf] = self._uplink(leaf, source, target, rail)
                    rates.append(self.uplink[leaf][ups[leaf]])
        for fault in self.faults:
            if self._slows(fault, source, target, rail, ups):
                rates.append(self._factor(fault))
        return min(rates)

    def _over_all(self, leaf: int) -> float:
        """Of what takes each uplink of a leaf in equal parts."""
        rates = [*self.uplink[leaf]]
        for fault in self.faults:
            if fault.part.kind == "uplink" and fault.part.of == leaf:
                rates[fault.part.at] = min(rates[fault.part.at], self._factor(fault))
        return sum(rates) / len(rates)

    def _uplink(self, leaf: int, source: int, target: int, rail: int) -> int:
        count = self.wiring.uplinks[leaf]
        if self.routes == "adaptive":
            return self.random.randrange(count)
        if self.routes == "hashed":
            return hash((self.seed, leaf, source, target, rail)) % count
        return self.wiring.place[target][rail] % count

    def _slows(self, fault: Fault, source: int, target: int, rail: int, ups: dict[int, int]) -> bool:
        kind, of, at = fault.part
        if kind in ("node", "cable", "adapter"):
            here = source if fault.way == "out" else target if fault.way == "in" else of
            touched = of in (source, target) and here == of
            return touched and (fault.of != "compute" if kind == "node" else at == rail)
        if kind == "rail":
            return of == rail
        if kind == "pair":
            first = (source, target) == (of, at)
            return {source, target} == {of, at} and (not fault.way or first == (fault.way == "out"))
        if not self.wiring.known or kind == "gpu":
            return False
        up, down = self.wiring.leaf[source][rail], self.wiring.leaf[target][rail]
        if kind == "leaf":
            return of in (up, down)
        crossed = of in ups and up != down and (kind == "uplinks" or ups[of] == at)
        return crossed and (not fault.way or (of == up) == (fault.way == "out"))

    def _factor(self, fault: Fault) -> float:
        over = fault.until and self.round > fault.until
        return 1.0 if over or self.random.random() >= fault.chance else fault.factor

    def _noisy(self, rate: float) -> float:
        return rate * self.random.gauss(1, NOISE) * (GLITCH if self.random.random() < self.glitches else 1.0)
