"""The fewest parts that explain low values between pairs, and the other possible parts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from hpcforge.isolation.evidence import Evidence, Low
from hpcforge.isolation.lines import AGREEING, needed
from hpcforge.isolation.state import BadPart, Counts, Judgement, Part
from hpcforge.isolation.unsteady import PATIENCE, UNSTEADY, loose_uplinks, unsteady_parts
from hpcforge.isolation.wiring import NodeWiring

# of equally good explanations, the earlier kind is preferred
_ORDER = ("pair", "cable", "uplink", "node", "uplinks", "leaf")
_NEAR = 0.9  # of the line: above it, a slow part of the path may exceed the line elsewhere by noise
_BY_CHANCE = 1e-4  # the share of fleets whose routes differ from the plan and make an uplink look bad


@dataclass(frozen=True)
class PairReading:
    """The result of pairs' measurements: findings, open low values, and parts to measure again."""

    findings: tuple[BadPart, ...]
    open: tuple[Low, ...]
    suspects: tuple[Part, ...]
    passing: int  # low values that passed


def explain(evidence: Evidence, bad_parts: AbstractSet[Part]) -> PairReading:
    """Find the fewest parts without any good value. Each low value counts once; those of `bad_parts` do not.

    Each finding explains low values that no earlier one does, so there are at most as many as low values.
    """
    counts = evidence.state.counts.get("pair", Counts())
    unexplained = {low for low in evidence.lows if bad_parts.isdisjoint(_explaining(evidence, low))}
    findings: list[BadPart] = []
    while best := _best(evidence, unexplained, needed(counts)):
        parts, lows = best
        sure = len(parts) == 1 and not _in_doubt(evidence, parts[0], lows)
        findings.append(evidence.finding("bad" if sure else "could not tell", parts, lows))
        unexplained -= lows
    suspects: list[Part] = []
    for candidate in (*unsteady_parts(evidence, unexplained), *loose_uplinks(evidence, unexplained)):
        if unexplained.isdisjoint(candidate.low):
            continue
        part = candidate.parts[0]
        if candidate.chance < UNSTEADY and candidate.agrees:
            # an end may be unsteady
            doubted = part.kind in ("pair", "uplinks") or _in_doubt(evidence, part, candidate.low)
            verdict: Judgement = "could not tell" if doubted else "unsteady"
            findings.append(evidence.finding(verdict, candidate.parts, candidate.low, candidate.good))
            unexplained -= candidate.low
        elif candidate.chance < candidate.suspect and candidate.values < candidate.patience:
            suspects += candidate.parts
    passing = {low for low in unexplained if evidence.passed(low)}
    findings = [*_by_routes(evidence, findings)]
    return PairReading(tuple(findings), tuple(sorted(unexplained - passing)), tuple(suspects), len(passing))


def _explaining(evidence: Evidence, low: Low) -> set[Part]:
    """Return the nodes and adapters that explain a low value by their own measurements."""
    measurement, rail = evidence.state.met[low[0]], low[1] // 2
    ends = (measurement.a, measurement.b)
    return {*(Part("node", node) for node in ends), *(Part("adapter", node, rail) for node in ends)}


def _best(evidence: Evidence, unexplained: AbstractSet[Low], enough: int) -> tuple[tuple[Part, ...], set[Low]] | None:
    """Return the part that explains most of the remaining low values, and these; several parts if they tie.

    The remaining values must suffice: a low value that another part explains is not evidence against this one.
    """
    counts = Counter(part for low in unexplained for part in evidence.path(low))
    order = sorted((p for p in counts if counts[p] >= enough), key=lambda p: (-counts[p], _ORDER.index(p.kind), p))
    tied: list[tuple[Part, set[Low]]] = []
    for part in order:
        if tied and counts[part] < counts[tied[0][0]]:
            break
        low = {
            low: partner
            for weight in evidence.bad_ways(part)
            for low, partner in weight.low.items()
            if low in unexplained
        }
        if len(low) < enough or len(evidence.runs(low)) < AGREEING or len(evidence.rounds(low)) < 2:
            continue
        lows = {*low}
        if part.kind == "pair":
            if _ends_known(evidence, part, lows):
                return (part,), lows
        elif len(_partners(evidence, part, low)) >= 2 and (
            _on_enough_paths(evidence, part, lows) or len(lows) >= PATIENCE
        ):
            return (part, *_as_good(evidence, part, lows, order)), lows
        elif _only_one(evidence, part):
            tied.append((part, lows))
    return _tie(tied)


def _partners(evidence: Evidence, part: Part, lows: Mapping[Low, int]) -> set[int]:
    """Return the other nodes or leaves of low values; for a cable or node without those also low with others."""
    if part.kind not in ("cable", "node"):
        return {*lows.values()}
    return {
        partner
        for low, partner in lows.items()
        for ways in (evidence.bad_ways(Part("cable", partner, low[1] // 2)),)
        if all({*weight.low.values()} == {part.of} for weight in ways if low in weight.low)
    }


def _tie(tied: Sequence[tuple[Part, set[Low]]]) -> tuple[tuple[Part, ...], set[Low]] | None:
    """Return the tied parts that explain the same: single cables before all cables of a leaf."""
    single = [(part, lows) for part, lows in tied if part.kind in ("cable", "uplink")] or tied
    same = [part for part, lows in single if lows == single[0][1]]
    return (tuple(same), single[0][1]) if same else None


def _as_good(evidence: Evidence, part: Part, lows: AbstractSet[Low], others: Collection[Part]) -> Iterator[Part]:
    """Yield other cables that explain low values as well as a cable does: no measurement shows them apart.

    Nor does any distinguish the cable of the only node on a leaf from the leaf.
    """
    if part.kind not in ("cable", "uplink"):
        return
    wiring = evidence.state.wiring
    if part.kind == "cable" and _has_leaf_alone(wiring, part):
        yield Part("leaf", wiring.leaf[part.of][part.at])
    for candidate in others:
        also = {low for weight in evidence.bad_ways(candidate) for low in weight.low}
        if candidate != part and candidate.kind in ("cable", "uplink") and lows <= also:
            yield candidate


def _has_leaf_alone(wiring: NodeWiring, cable: Part) -> bool:
    return wiring.known and len(wiring.units) > 1 and len(wiring.on_leaf[wiring.leaf[cable.of][cable.at]]) == 1


def _on_enough_paths(evidence: Evidence, part: Part, lows: Collection[Low]) -> bool:
    """Return whether enough paths over an uplink are low to exclude other routes than planned, in nearly all fleets.

    The chance is that of another uplink, taking each path at random, to take this number of one planned uplink's paths.
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
    """Return whether a part on its way, though good elsewhere, may make a path low.

    A slightly slow part is low on some paths alone, and a part that is slow at times may be so on one rail. If paths
    across leaves are slower than inside by design, or paths inside slower as most nodes are, good values there are not
    evidence for the ends of a faster path.
    """
    wiring, lines = evidence.state.wiring, evidence.state.lines
    value, line = evidence.measured(lows)
    places = {place for _, place in lows}
    rails = {place // 2 for place in places}
    if len(rails) < wiring.rails or value > _NEAR * line.at_least > 0:
        return True
    if not wiring.known:
        return False
    crossing = all(wiring.crosses(path.of, path.at, rail) for rail in rails)
    own, other_kind = ("across", "inside") if crossing else ("inside", "across")
    if {own, other_kind} <= lines.keys() and lines[other_kind].median < lines[own].at_least:
        return True
    if not crossing:
        return False
    leaves = [wiring.leaf[path.of][rail] for rail in rails]
    return max(_by_chance(evidence, leaf, len(places)) for leaf in leaves) > _BY_CHANCE


def _by_routes(evidence: Evidence, findings: Sequence[BadPart]) -> Iterator[BadPart]:
    """Yield findings; uplinks and unsteady cables are in doubt if anything else over their leaf is, by routes."""
    leaves = {
        leaf for finding in findings if finding.verdict == "could not tell" for leaf in _leaves(evidence, finding.parts)
    }
    for finding in findings:
        kind = finding.parts[0].kind
        doubted = not leaves.isdisjoint(_leaves(evidence, finding.parts)) and (
            kind == "uplink" or finding.verdict == "unsteady"
        )
        doubted = doubted or (kind == "uplink" and finding.verdict == "unsteady")
        yield replace(finding, verdict="could not tell") if doubted else finding


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


def _ends_known(evidence: Evidence, pair: Part, lows: Collection[Low]) -> bool:
    """Return whether each part on the way of a pair has carried good values with other partners."""
    parts = {part for low in lows for part in evidence.path(low) if part.kind in ("cable", "uplink")}
    return all(not evidence.bad_ways(part) for part in parts) and pair.kind == "pair"


def _only_one(evidence: Evidence, part: Part) -> bool:
    """Return whether a part can be measured with one other node or leaf alone."""
    wiring = evidence.state.wiring
    if part.kind == "cable":
        return len(wiring.nodes) == 2
    return part.kind in ("uplink", "uplinks") and len(wiring.units) == 2
