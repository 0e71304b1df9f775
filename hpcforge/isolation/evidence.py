"""What measurements of pairs say about each part, and the fewest parts that explain what was low. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property

from hpcforge.isolation.lines import AGREEING, median, needed, surprise
from hpcforge.isolation.state import BadPart, Counts, FleetLine, Judgement, Kind, Part, State

Low = tuple[int, int]  # a measurement, by its number, and the place of a value in it
Way = str | int
_ORDER: tuple[Kind, ...] = (
    "pair",
    "cable",
    "uplink",
    "node",
    "uplinks",
    "leaf",
)  # of parts that explain as much: first
_WHOLE = ("node", "uplinks", "leaf")  # parts that are bad only if everything through them is
_GOOD_OF_WHOLE = 0.02  # the share of values through such a part that may be good nevertheless
UNSTEADY = 1e-5  # a part that would be low so often by chance in fewer runs than this is unsteady
SUSPECT = 0.05  # and one below this is measured again
FIRST_ROUNDS = 3  # those in which pairs are measured for their own sake
PATIENCE = 16  # values of a part after which it is not measured again


@dataclass
class Weight:
    """The values that were measured through a part in one direction."""

    low: list[Low] = field(default_factory=list)
    good: int = 0
    others: set[int] = field(default_factory=set)  # partners of a node, other leaves of a leaf


@dataclass
class Evidence:
    """All measurements of pairs, by node, and what they say. It is made for one step, and then forgotten."""

    state: State

    @cached_property
    def of_node(self) -> dict[int, list[int]]:
        """The measurements that a node took part in."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, met in enumerate(self.state.met):
            found[met.a].append(number)
            found[met.b].append(number)
        return found

    @cached_property
    def of_pair(self) -> dict[tuple[int, int], list[int]]:
        """The measurements of each pair."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, met in enumerate(self.state.met):
            found[met.a, met.b].append(number)
        return found

    @cached_property
    def lows(self) -> list[Low]:
        """Every low value of a pair, but those of rails that are slow as a whole."""
        return [(number, place) for number, met in enumerate(self.state.met) if met.low for place in met.low]

    def path(self, low: Low) -> Iterator[Part]:
        """The parts that a value depends on."""
        met, wiring = self.state.met[low[0]], self.state.wiring
        rail = low[1] // 2
        source, target = (met.b, met.a) if low[1] % 2 else (met.a, met.b)
        yield Part("pair", met.a, met.b)
        for node in (source, target):
            yield Part("cable", node, rail)
            if wiring.rails > 1:
                yield Part("node", node)
        if not wiring.known:
            return
        leaves = (wiring.leaf[source][rail], wiring.leaf[target][rail])
        for leaf in dict.fromkeys(leaves):
            yield Part("leaf", leaf)
        if leaves[0] != leaves[1]:
            for leaf in leaves:
                yield Part("uplinks", leaf)
                uplink = wiring.uplink(leaf, target, rail)
                if uplink is not None:
                    yield Part("uplink", leaf, uplink)

    def through(self, part: Part) -> Iterator[tuple[Low, Way, int]]:
        """Each value that was measured through a part: where, in which direction, and with which other node or leaf."""
        wiring, met = self.state.wiring, self.state.met
        if part.kind == "pair":
            for number in self.of_pair[part.of, part.at]:
                yield from (((number, place), place, part.at) for place in range(2 * wiring.rails))
        elif part.kind in ("cable", "node"):
            rails = range(wiring.rails) if part.kind == "node" else (part.at,)
            for number in self.of_node[part.of]:
                first = met[number].a == part.of
                other = met[number].b if first else met[number].a
                for rail in rails:
                    out, back = (2 * rail, 2 * rail + 1) if first else (2 * rail + 1, 2 * rail)
                    yield (number, out), "" if part.kind == "node" else "out", other
                    yield (number, back), "" if part.kind == "node" else "in", other
        else:
            yield from self._through_leaf(part)

    def _through_leaf(self, part: Part) -> Iterator[tuple[Low, Way, int]]:
        wiring = self.state.wiring
        for node, rail in wiring.on_leaf[part.of]:
            for number in self.of_node[node]:
                met = self.state.met[number]
                first = met.a == node
                other = met.b if first else met.a
                elsewhere = wiring.leaf[other][rail]
                out, back = (2 * rail, 2 * rail + 1) if first else (2 * rail + 1, 2 * rail)
                if part.kind == "leaf":
                    if elsewhere != part.of or first:  # both ends on this leaf: once
                        yield from (((number, place), "", node) for place in (out, back))
                elif elsewhere != part.of:
                    for place, way, target in ((out, "out", other), (back, "in", node)):
                        if part.kind == "uplinks" or wiring.uplink(part.of, target, rail) == part.at:
                            yield (number, place), "" if part.kind == "uplinks" else way, elsewhere

    def weigh(self, part: Part) -> dict[Way, Weight]:
        """What was measured through a part, by direction."""
        if part not in self._weighed:
            found: dict[Way, Weight] = defaultdict(Weight)
            for low, way, other in self.through(part):
                weight = found[way]
                if low[1] in self.state.met[low[0]].low:
                    weight.low.append(low)
                    weight.others.add(other)
                else:
                    weight.good += 1
            self._weighed[part] = dict(found)
        return self._weighed[part]

    _weighed: dict[Part, dict[Way, Weight]] = field(default_factory=dict)

    def bad_ways(self, part: Part) -> list[Weight]:
        """The directions in which nothing through a part was good; of a whole node or leaf nearly nothing."""
        allowed = _GOOD_OF_WHOLE if part.kind in _WHOLE else 0.0
        return [w for w in self.weigh(part).values() if w.low and w.good <= allowed * len(w.low)]

    def runs(self, lows: Collection[Low]) -> set[int]:
        """The measurements of low values."""
        return {number for number, _ in lows}

    def rounds(self, lows: Collection[Low]) -> tuple[int, ...]:
        """The rounds of low values."""
        return tuple(sorted({self.state.met[number].round for number, _ in lows}))

    def measured(self, lows: Collection[Low]) -> tuple[float, FleetLine]:
        """The median of low values, and the line of the first."""
        met = self.state.met
        values = [met[number].values[met[number].low.index(place)] for number, place in lows]
        number, place = min(lows)
        of, lines = self.state.wiring.unit_of, self.state.lines
        crosses = of[met[number].a] != of[met[number].b]
        names = [f"{kind} {place // 2}" for kind in (("across", "inside") if crosses else ("inside", "across"))]
        return median(values), next((lines[name] for name in names if name in lines), FleetLine(0.0, 0.0))

    def passed(self, low: Low) -> bool:
        """Whether a low value needs no other measurement: the same pair was good in the same direction.

        A pair that met only so that others could be judged is not judged itself: it is enough that its parts were good.
        """
        met = self.state.met
        here = self.of_pair[met[low[0]].a, met[low[0]].b]
        if any(low[1] not in met[number].low for number in here):
            return True
        parts = [part for part in self.path(low) if part.kind in ("cable", "uplink")]
        judged = met[here[0]].round <= FIRST_ROUNDS
        return not judged and not any(low in weight.low for part in parts for weight in self.bad_ways(part))


@dataclass(frozen=True)
class PairReading:
    """The parts that are named by measurements of pairs, what is still open, and parts that are measured again."""

    findings: tuple[BadPart, ...]
    open: tuple[Low, ...]
    suspects: tuple[Part, ...]
    passing: int  # low values that passed


def explain(evidence: Evidence, known: AbstractSet[Part]) -> PairReading:
    """Name the fewest parts through which nothing was good. `known` parts are bad; each low value counts once."""
    counts = evidence.state.counts.get("pair", Counts())
    left = {low for low in evidence.lows if known.isdisjoint(_explaining(evidence, low))}
    findings: list[BadPart] = []
    while True:
        found = _best(evidence, left, needed(counts))
        if found is None:
            break
        parts, lows = found
        findings.append(_finding(evidence, "bad" if len(parts) == 1 else "could not tell", parts, lows, 0))
        left -= lows
    suspects: list[Part] = []
    for part, weight in _unsure(evidence, left):
        chance = surprise(counts, len(weight.low), weight.good)
        agreed = len(evidence.runs(weight.low)) >= AGREEING and len(evidence.rounds(weight.low)) > 1
        if weight.good and chance < UNSTEADY and agreed:
            findings.append(_finding(evidence, "unsteady", (part,), set(weight.low), weight.good))
            left -= {*weight.low}
        elif chance < SUSPECT and len(weight.low) + weight.good < PATIENCE:
            suspects.append(part)
    passing = {low for low in left if evidence.passed(low)}
    return PairReading(tuple(findings), tuple(sorted(left - passing)), tuple(suspects), len(passing))


def _explaining(evidence: Evidence, low: Low) -> set[Part]:
    """What explains a low value without measurements of pairs: a bad node, a bad adapter, a slow rail."""
    met, rail = evidence.state.met[low[0]], low[1] // 2
    ends = (met.a, met.b)
    return {*(Part("node", node) for node in ends), *(Part("adapter", node, rail) for node in ends)}


def _best(evidence: Evidence, left: Collection[Low], enough: int) -> tuple[tuple[Part, ...], set[Low]] | None:
    """The part that explains most of what is left, and what that is; several if they explain the same and none else."""
    counts = Counter(part for low in left for part in evidence.path(low))
    order = sorted(
        (part for part in counts if counts[part] >= AGREEING), key=lambda p: (-counts[p], _ORDER.index(p.kind), p)
    )
    tied: list[tuple[Part, set[Low]]] = []
    for part in order:
        if tied and counts[part] < counts[tied[0][0]]:
            break
        ways = evidence.bad_ways(part)
        lows = {low for weight in ways for low in weight.low}
        if lows.isdisjoint(left):  # what is left through it is low in a direction that was good, too
            continue
        if len(lows) < enough or len(evidence.runs(lows)) < AGREEING or len(evidence.rounds(lows)) < 2:
            continue
        others = {other for weight in ways for other in weight.others}
        if part.kind == "pair":
            if _ends_known(evidence, part, lows):
                return (part,), lows
        elif len(others) >= 2:
            return (part,), lows
        elif _only_one(evidence, part):
            tied.append((part, lows))
    physical = [(part, lows) for part, lows in tied if part.kind in ("cable", "uplink")]
    return (tuple(part for part, _ in physical), physical[0][1]) if physical else None


def _ends_known(evidence: Evidence, pair: Part, lows: Collection[Low]) -> bool:
    """Whether each part on the way of a pair has carried good values with other partners."""
    parts = {part for low in lows for part in evidence.path(low) if part.kind in ("cable", "uplink")}
    return all(not evidence.bad_ways(part) for part in parts) and pair.kind == "pair"


def _only_one(evidence: Evidence, part: Part) -> bool:
    """Whether a part can be measured with one other node or leaf alone."""
    wiring = evidence.state.wiring
    if part.kind == "cable":
        return len(wiring.nodes) == 2
    return part.kind in ("uplink", "uplinks") and len(wiring.units) == 2


def _unsure(evidence: Evidence, left: Collection[Low]) -> Iterator[tuple[Part, Weight]]:
    """Parts that are low in several measurements and not in all, those that explain most first; each low value once."""
    counts = Counter(part for low in left for part in evidence.path(low) if part.kind in ("cable", "uplink", "pair"))
    used: set[Low] = set()
    for part in sorted((p for p in counts if counts[p] > 1), key=lambda p: (-counts[p], _ORDER.index(p.kind), p)):
        ways = [w for w in evidence.weigh(part).values() if w.low and not used.intersection(w.low)]
        together = Weight([low for w in ways for low in w.low if low in left], sum(w.good for w in ways))
        if len(evidence.runs(together.low)) > 1:
            used.update(together.low)
            yield part, together


def _finding(
    evidence: Evidence, verdict: Judgement, parts: tuple[Part, ...], lows: Collection[Low], good: int
) -> BadPart:
    return BadPart(verdict, parts, *evidence.measured(lows), len(lows), good, evidence.rounds(lows))
