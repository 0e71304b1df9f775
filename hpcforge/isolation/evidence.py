"""What measurements of pairs say about each part, and the fewest parts that explain what was low. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property

from hpcforge.isolation.lines import AGREEING, median, needed, surprise
from hpcforge.isolation.state import BadPart, Counts, FleetLine, Judgement, Kind, Part, State
from hpcforge.isolation.wiring import NodeWiring

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
_NEAR = 0.9  # of the line: where a path is not lower, noise may take a slow part of it over the line elsewhere
_BY_CHANCE = 1e-4  # of fleets, in which routes unlike the plan may make an uplink look bad
PATIENCE = 16  # values of a part after which it is not measured again


@dataclass
class Weight:
    """The values that were measured through a part in one direction."""

    low: dict[Low, int] = field(default_factory=dict)  # by value: the partner of a node, the other leaf of a leaf
    good: int = 0


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
                    yield (number, out), "out", other
                    yield (number, back), "in", other
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
                            yield (number, place), way, elsewhere

    def weigh(self, part: Part) -> dict[Way, Weight]:
        """What was measured through a part, by direction."""
        if part not in self._weighed:
            found: dict[Way, Weight] = defaultdict(Weight)
            for low, way, other in self.through(part):
                weight = found[way]
                if low[1] in self.state.met[low[0]].low:
                    weight.low[low] = other
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

    def paths(self, lows: Collection[Low]) -> set[tuple[int, int, int]]:
        """Return the paths of low values: both nodes and the place."""
        met = self.state.met
        return {(met[number].a, met[number].b, place) for number, place in lows}

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

    def always(self, low: Low) -> bool:
        """Whether a path was measured twice or more and was low each time."""
        met = self.state.met
        here = self.of_pair[met[low[0]].a, met[low[0]].b]
        return len(here) > 1 and not self.once_good(low)

    def once_good(self, low: Low) -> bool:
        """Whether the same pair was good in the same direction, before or after."""
        met = self.state.met
        here = self.of_pair[met[low[0]].a, met[low[0]].b]
        return any(low[1] not in met[number].low for number in here)

    def passed(self, low: Low) -> bool:
        """Whether a low value needs no other measurement: the same pair was good in the same direction.

        A pair that met only so that others could be judged is not judged itself: it is enough that its parts were good.
        """
        met = self.state.met
        here = self.of_pair[met[low[0]].a, met[low[0]].b]
        if self.once_good(low):
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
    """Name the fewest parts through which nothing was good. `known` parts are bad; each low value counts once.

    Each finding takes low values that none before it explains, so there are at most as many as low values.
    """
    counts = evidence.state.counts.get("pair", Counts())
    left = {low for low in evidence.lows if known.isdisjoint(_explaining(evidence, low))}
    findings: list[BadPart] = []
    while best := _best(evidence, left, needed(counts)):
        parts, lows = best
        sure = len(parts) == 1 and not _in_doubt(evidence, parts[0], lows)
        findings.append(_finding(evidence, "bad" if sure else "could not tell", parts, lows, 0))
        left -= lows
    suspects: list[Part] = []
    for part, weight in _unsure(evidence, left):
        chance = surprise(counts, len(weight.low), weight.good, _rate_beside(evidence, part, weight))
        agreed = len(evidence.runs(weight.low)) >= AGREEING and len(evidence.rounds(weight.low)) > 1
        agreed = agreed and (part.kind == "pair" or len({*weight.low.values()}) > 1)
        agreed = agreed and 2 * sum(evidence.once_good(low) for low in weight.low) >= len(weight.low)
        if weight.good and chance < UNSTEADY and agreed:
            doubted = part.kind == "pair" or _in_doubt(evidence, part, weight.low)  # an end may be unsteady
            verdict: Judgement = "could not tell" if doubted else "unsteady"
            findings.append(_finding(evidence, verdict, (part,), set(weight.low), weight.good))
            left -= {*weight.low}
        elif chance < SUSPECT and len(weight.low) + weight.good < PATIENCE:
            suspects.append(part)
    passing = {low for low in left if evidence.passed(low)}
    findings = [*_by_routes(evidence, findings)]
    return PairReading(tuple(findings), tuple(sorted(left - passing)), tuple(suspects), len(passing))


def _explaining(evidence: Evidence, low: Low) -> set[Part]:
    """What explains a low value without measurements of pairs: a bad node, a bad adapter, a slow rail."""
    met, rail = evidence.state.met[low[0]], low[1] // 2
    ends = (met.a, met.b)
    return {*(Part("node", node) for node in ends), *(Part("adapter", node, rail) for node in ends)}


def _best(evidence: Evidence, left: AbstractSet[Low], enough: int) -> tuple[tuple[Part, ...], set[Low]] | None:
    """The part that explains most of what is left, and what that is; several if they explain the same and none else.

    What is left must be enough by itself: a low value that another part explains says nothing of this one.
    """
    counts = Counter(part for low in left for part in evidence.path(low))
    order = sorted((p for p in counts if counts[p] >= enough), key=lambda p: (-counts[p], _ORDER.index(p.kind), p))
    tied: list[tuple[Part, set[Low]]] = []
    for part in order:
        if tied and counts[part] < counts[tied[0][0]]:
            break
        low = {low: other for weight in evidence.bad_ways(part) for low, other in weight.low.items() if low in left}
        if len(low) < enough or len(evidence.runs(low)) < AGREEING or len(evidence.rounds(low)) < 2:
            continue
        lows = {*low}
        if part.kind == "pair":
            if _ends_known(evidence, part, lows):
                return (part,), lows
        elif len({*low.values()}) >= 2 and (_on_enough_paths(evidence, part, lows) or len(lows) >= PATIENCE):
            return (part, *_as_good(evidence, part, lows, order)), lows
        elif _only_one(evidence, part):
            tied.append((part, lows))
    return _tie(tied)


def _tie(tied: Sequence[tuple[Part, set[Low]]]) -> tuple[tuple[Part, ...], set[Low]] | None:
    """Those of parts that explain the same: cables before all cables of a leaf."""
    single = [(part, lows) for part, lows in tied if part.kind in ("cable", "uplink")] or tied
    same = [part for part, lows in single if lows == single[0][1]]
    return (tuple(same), single[0][1]) if same else None


def _as_good(evidence: Evidence, part: Part, lows: AbstractSet[Low], others: Collection[Part]) -> Iterator[Part]:
    """Other cables that explain low values as well as a cable does: no measurement shows them apart.

    Nor is the cable of a node that has a leaf for itself told from the leaf.
    """
    if part.kind not in ("cable", "uplink"):
        return
    wiring = evidence.state.wiring
    if part.kind == "cable" and _has_leaf_alone(wiring, part):
        yield Part("leaf", wiring.leaf[part.of][part.at])
    for other in others:
        also = {low for weight in evidence.bad_ways(other) for low in weight.low}
        if other != part and other.kind in ("cable", "uplink") and lows <= also:
            yield other


def _has_leaf_alone(wiring: NodeWiring, cable: Part) -> bool:
    return wiring.known and len(wiring.units) > 1 and len(wiring.on_leaf[wiring.leaf[cable.of][cable.at]]) == 1


def _on_enough_paths(evidence: Evidence, part: Part, lows: Collection[Low]) -> bool:
    """Return whether so many paths over an uplink are low that routes unlike the plan would make them so in few fleets.

    Another uplink that took each path at random would take so many of one of the plan's uplinks with this chance.
    """
    return part.kind != "uplink" or _by_chance(evidence, part.of, len(evidence.paths(lows))) <= _BY_CHANCE


def _by_chance(evidence: Evidence, leaf: int, paths: int) -> float:
    count = evidence.state.wiring.uplinks[leaf]
    return float(count) ** (1 - paths) if count else 1.0


def _in_doubt(evidence: Evidence, part: Part, lows: Collection[Low]) -> bool:
    """Return whether a part on the way, or uplinks of other routes, explain low values as well as a part."""
    if part.kind == "uplink":
        return not _on_enough_paths(evidence, part, lows)
    if part.kind == "cable":
        return _has_leaf_alone(evidence.state.wiring, part)
    return part.kind == "pair" and _path_in_doubt(evidence, part, lows)


def _path_in_doubt(evidence: Evidence, path: Part, lows: Collection[Low]) -> bool:
    """Return whether a path may be low because of a part on its way, though that was good elsewhere.

    A part that is a little slow is low on some paths alone, and a part that is slow now and then may be so on one rail.
    Where paths across leaves are slower by design, being good there shows nothing of the ends of one inside.
    """
    wiring, lines = evidence.state.wiring, evidence.state.lines
    value, line = evidence.measured(lows)
    places = {place for _, place in lows}
    rails = {place // 2 for place in places}
    if len(rails) < wiring.rails or value > _NEAR * line.at_least > 0:
        return True
    if not wiring.known:
        return False
    if not all(wiring.crosses(path.of, path.at, rail) for rail in rails):
        return {"inside", "across"} <= lines.keys() and lines["across"].median < lines["inside"].at_least
    leaves = [wiring.leaf[path.of][rail] for rail in rails]
    return max(_by_chance(evidence, leaf, len(places)) for leaf in leaves) > _BY_CHANCE


def _by_routes(evidence: Evidence, findings: Sequence[BadPart]) -> Iterator[BadPart]:
    """Findings; uplinks and unsteady cables are in doubt where anything else over their leaf is: routes may differ."""
    leaves = {leaf for each in findings if each.verdict == "could not tell" for leaf in _leaves(evidence, each.parts)}
    for each in findings:
        kind = each.parts[0].kind
        doubted = not leaves.isdisjoint(_leaves(evidence, each.parts)) and (
            kind == "uplink" or each.verdict == "unsteady"
        )
        doubted = doubted or (kind == "uplink" and each.verdict == "unsteady")
        yield replace(each, verdict="could not tell") if doubted else each


def _leaves(evidence: Evidence, parts: Collection[Part]) -> Iterator[int]:
    """Yield the leaves that paths, cables and uplinks are on."""
    wiring = evidence.state.wiring
    for part in parts:
        if part.kind in ("uplink", "uplinks"):
            yield part.of
        elif wiring.known and part.kind == "pair":
            yield from (*wiring.leaf[part.of], *wiring.leaf[part.at])
        elif wiring.known and part.kind == "cable":
            yield wiring.leaf[part.of][part.at]


def _rate_beside(evidence: Evidence, part: Part, weight: Weight) -> float:
    """Return how often values over the same leaf are low that do not depend on a part: it must exceed that."""
    wiring = evidence.state.wiring
    if not wiring.known or part.kind not in ("cable", "uplink", "pair"):
        return 0.0
    rail = next(iter(weight.low))[1] // 2
    leaves = {part.of} if part.kind == "uplink" else {wiring.leaf[part.of][rail]}
    leaves |= {wiring.leaf[part.at][rail]} if part.kind == "pair" else set()
    beside = [w for leaf in leaves for w in evidence.weigh(Part("uplinks", leaf)).values()]
    low = len({low for w in beside for low in w.low} - {*weight.low})
    count = sum(len(w.low) + w.good for w in beside) - len(weight.low) - weight.good
    return (low + 1) / (count + 1) if count > 0 else 0.0


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
    """Parts that are low in several measurements and not in all, those that explain most first; each low value once.

    A path that is low whenever it is measured says nothing of parts that are low now and then.
    """
    left = {low for low in left if not evidence.always(low)}
    counts = Counter(part for low in left for part in evidence.path(low) if part.kind in ("cable", "uplink", "pair"))
    used: set[Low] = set()
    for part in sorted((p for p in counts if counts[p] > 1), key=lambda p: (-counts[p], _ORDER.index(p.kind), p)):
        ways = [w for w in evidence.weigh(part).values() if w.low and w.good and not used.intersection(w.low)]
        low = {low: other for w in ways for low, other in w.low.items() if low in left}
        together = Weight(low, sum(w.good for w in ways))
        if len(evidence.runs(together.low)) > 1:
            used.update(together.low)
            yield part, together


def _finding(
    evidence: Evidence, verdict: Judgement, parts: tuple[Part, ...], lows: Collection[Low], good: int
) -> BadPart:
    return BadPart(verdict, parts, *evidence.measured(lows), len(lows), good, evidence.rounds(lows))
