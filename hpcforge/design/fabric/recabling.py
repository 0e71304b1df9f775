"""The fewest moves that put wrong cables into empty places, and their names. Pure.

A wrong cable of which one end is in an empty place takes one move, the plug at its other end. No move fills two places,
so a plan that gives as many wrong cables as possible a place of their own has the fewest moves: those, one for each
place left empty, one for each cable left over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcforge.design.fabric.cable_index import Bundle, CableEnds, Drawn, PortName


@dataclass(frozen=True)
class PlugMove:
    """One plug to move: of which cable (its ends as they are), from where, into what."""

    cable: CableEnds
    taken: PortName
    into: PortName

    @property
    def stays(self) -> PortName:
        """The cable's other end."""
        return self.cable.other(self.taken)


def assign(wrong: Sequence[CableEnds], empty: Mapping[Bundle, int], drawn: Drawn) -> dict[CableEnds, PortName]:
    """Give as many wrong cables as possible an empty place that one of their ends is in already; return that end.

    A maximum matching by shortest augmenting paths; cables on one side, places of bundles on the other. The end at a
    node stays where both could. networkx's matching recurses: 1,000 cables that shift one another exceed its depth.
    """
    kept: dict[CableEnds, PortName] = {}
    holds: dict[Bundle, list[CableEnds]] = {bundle: [] for bundle in empty}
    for link in wrong:
        _augment(link, kept, holds, empty, drawn)
    return kept


def _augment(
    start: CableEnds,
    kept: dict[CableEnds, PortName],
    holds: dict[Bundle, list[CableEnds]],
    empty: Mapping[Bundle, int],
    drawn: Drawn,
) -> None:
    came: dict[Bundle, tuple[CableEnds, PortName]] = {}  # the cable that would go there, and its end that stays
    queue = deque([start])
    while queue:
        link = queue.popleft()
        for port in sorted(link, key=lambda end: not drawn.is_end(end.device)):
            bundle = drawn.bundle_of(port)
            if bundle is None or bundle not in empty or bundle in came:
                continue
            came[bundle] = link, port
            if len(holds[bundle]) < empty[bundle]:
                _shift(bundle, came, kept, holds, drawn)
                return
            queue.extend(holds[bundle])


def _shift(
    bundle: Bundle | None,
    came: Mapping[Bundle, tuple[CableEnds, PortName]],
    kept: dict[CableEnds, PortName],
    holds: dict[Bundle, list[CableEnds]],
    drawn: Drawn,
) -> None:
    """Take the path back: every cable on it goes to the next place."""
    while bundle is not None:
        link, port = came[bundle]
        old = drawn.bundle_of(kept[link]) if link in kept else None
        if old is not None:
            holds[old].remove(link)
        holds[bundle].append(link)
        kept[link] = port
        bundle = old


def plugs(
    wrong: Sequence[CableEnds], kept: Mapping[CableEnds, PortName], filled: set[PortName], drawn: Drawn
) -> list[PlugMove]:
    """Turn ends that stay into plugs that move; adds the ports that come to hold a cable to `filled`."""
    filled |= set(kept.values())
    found = []
    for link in wrong:
        if link in kept:
            into = _target(kept[link], filled, drawn)
            filled.add(into)
            found.append(PlugMove(link, link.other(kept[link]), into))
    return found


def _target(stays: PortName, filled: set[PortName], drawn: Drawn) -> PortName:
    """Return the port that a plug goes to: as drawn, or where a parallel cable is in it, another of the same bundle."""
    into = drawn.peer[stays]
    bundle = drawn.bundle_of(stays)
    if into not in filled or bundle is None:
        return into
    ends = (end for number in drawn.bundles[bundle] for end in drawn.links[number])
    return next(end for end in ends if end.device == into.device and end not in filled)


def swaps(moves: Sequence[PlugMove], drawn: Drawn) -> Iterator[tuple[PlugMove, ...]]:
    """Yield moves; two that exchange two plugs together, at whichever side both plugs are on the same device."""
    by_taken = {move.taken: move for move in moves}
    done: set[PortName] = set()
    for move in moves:
        other = by_taken.get(move.into)
        if move.taken in done:
            continue
        if other is None or other.into != move.taken:
            yield (move,)
            continue
        done |= {move.taken, other.taken}
        yield _nearer(move, other, drawn)


def _nearer(cable_end: PlugMove, other: PlugMove, drawn: Drawn) -> tuple[PlugMove, PlugMove]:
    """Return the same swap at the other ends of both cables, where those are on one device and these are not."""
    apart = cable_end.taken.device != other.taken.device and cable_end.stays.device == other.stays.device
    turned = (
        PlugMove(cable_end.cable, cable_end.stays, other.stays),
        PlugMove(other.cable, other.stays, cable_end.stays),
    )
    return (
        turned
        if apart and all(drawn.right(CableEnds(plug.stays, plug.into)) for plug in turned)
        else (cable_end, other)
    )
