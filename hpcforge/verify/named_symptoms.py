"""Symptoms of pairs for people: the reason of a part that is named, a part by its latency, or an observation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hpcforge.isolation.names import PartNames
from hpcforge.isolation.state import BadPart, Conclusion, Excess, Part, Quantity
from hpcforge.verify.verdicts import NamedPart

_COUNTED: Mapping[Quantity, str] = {
    "retransmits_per_1000_segments": "sent again",
    "duplicates_per_1000_segments": "arrived twice",
    "reorders_per_1000_segments": "arrived out of order",
}
_LATENCY: Quantity = "round_trip_ms"


def reasons(outcome: Conclusion, finding: BadPart, names: PartNames) -> tuple[str, ...]:
    """Return the symptoms of what a finding names, the latency first; none of what another before it names."""
    before = {part for other in outcome.findings[: outcome.findings.index(finding)] for part in other.parts}
    parts = {*finding.parts} - before
    return tuple(_words(each, names) for each in outcome.excesses if each.part in parts)


def latencies(outcome: Conclusion, names: PartNames) -> Iterator[NamedPart]:
    """Yield the parts that only their latency tells."""
    alone = [finding.parts for finding in outcome.findings if len(finding.parts) == 1]
    for each in outcome.excesses:
        if each.quantity == _LATENCY and (each.part,) not in alone:
            nodes = names.nodes(each.part)
            text = [_words(each, names), *(_words(it, names) for it in _beside(outcome, each))]
            text.append(f"{each.values} measurements in rounds {', '.join(map(str, each.rounds))}")
            source = f"the median of the others is {each.usual:.3g} ms"
            yield NamedPart(
                "bad",
                each.part.kind,
                names.words(each.part),
                nodes,
                each.measured,
                "ms",
                0.0,
                source,
                "; ".join(text),
                next_command(each.part, nodes),
                each.at_most,
            )


def observations(outcome: Conclusion, names: PartNames) -> Iterator[str]:
    """Yield what TCP counted at a node that nothing else names."""
    parts = {part for finding in outcome.findings for part in finding.parts}
    parts |= {each.part for each in outcome.excesses if each.quantity == _LATENCY}
    for each in outcome.excesses:
        if each.part.kind == "cable" and each.part not in parts:
            yield _words(each, names)


def next_command(part: Part, nodes: Sequence[str]) -> str:
    """Return what to type on the head to learn more of a part."""
    if part.kind in ("node", "gpu") and nodes:
        return f"scontrol show node {nodes[0]}"
    return f"ssh {nodes[0]} ip -statistics link" if nodes else "hpcforge verify BLUEPRINT --cabling"


def _beside(outcome: Conclusion, latency: Excess) -> Collection[Excess]:
    return [each for each in outcome.excesses if each.part == latency.part and each.quantity != _LATENCY]


def _words(excess: Excess, names: PartNames) -> str:
    where = " to ".join(names.nodes(excess.part))
    if excess.quantity == _LATENCY:
        return f"{where}: latency {excess.measured:.3g} ms, the others {excess.usual:.2g} ms (median)"
    what = _COUNTED[excess.quantity]
    return f"{where}: {excess.measured:.3g} of 1,000 TCP segments {what}, the others {excess.usual:.2g} (median)"
