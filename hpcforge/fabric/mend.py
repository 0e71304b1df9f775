"""The fewest moves that put wrong cables into empty places, and their names. Pure.

A wrong cable of which one end is in an empty place takes one move, the plug at its other end. No move fills two places,
so a plan that gives as many wrong cables as possible a place of their own has the fewest moves: those, one for each
place left empty, one for each cable left over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcforge.fabric.drawn import Bundle, Drawn, Link, Port


@dataclass(frozen=True)
class Plug:
    """One plug to move: of which cable (its ends as they are), from where, into what."""

    cable: Link
    taken: Port
    into: Port

    @property
    def stays(self) -> Port:
        """The cable's other end."""
        return self.cable.other(self.taken)


def assign(wrong: Sequence[Link], empty: Mapping[Bundle, int], drawn: Drawn) -> dict[Link, Port]:
    """Give as many wrong cables as possible an empty place that one of their ends is in already; return that end.

    A maximum matching by shortest augmenting paths; cables on one side, places of bundles on the other. The end at a
    node stays where both could.
    """
    kept: dict[Link, Port] = {}
    holds: dict[Bundle, list[Link]] = {bundle: [] for bundle in empty}
    for link in wrong:
        _augment(link, kept, holds, empty, drawn)
    return kept


def _augment(
    start: Link, kept: dict[Link, Port], holds: dict[Bundle, list[Link]], empty: Mapping[Bundle, int], drawn: Drawn
) -> None:
    came: dict[Bundle, tuple[Link, Port]] = {}  # the cable that would go there, and its end that stays
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
    came: Mapping[Bundle, tuple[Link, Port]],
    kept: dict[Link, Port],
    holds: dict[Bundle, list[Link]],
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


def plugs(wrong: Sequence[Link], kept: Mapping[Link, Port], filled: set[Port], drawn: Drawn) -> list[Plug]:
    """Turn ends that stay into plugs that move; adds the ports that come to hold a cable to `filled`."""
    filled |= set(kept.values())
    found = []
    for link in wrong:
        if link in kept:
            into = _target(kept[link], filled, drawn)
            filled.add(into)
            found.append(Plug(link, link.other(kept[link]), into))
    return found


def _target(stays: Port, filled: set[Port], drawn: Drawn) -> Port:
    """The port that a plug goes to: as drawn, or where a parallel cable is in it, another of the same bundle."""
    into = drawn.peer[stays]
    bundle = drawn.bundle_of(stays)
    if into not in filled or bundle is None:
        return into
    ends = (end for number in drawn.bundles[bundle] for end in drawn.links[number])
    return next(end for end in ends if end.device == into.device and end not in filled)


def swaps(moves: Sequence[Plug], drawn: Drawn) -> Iterator[tuple[Plug, ...]]:
    """Yield moves; two that exchange two plugs together, at whichever side both plugs are on the same device."""
    by_taken = {move.taken: move for move in moves}
    done: set[Port] = set()
    for move in moves:
        other = by_taken.get(move.into)
        if move.taken in done:
            continue
        if other is None or other.into != move.taken:
            yield (move,)
            continue
        done |= {move.taken, other.taken}
        yield _nearer(move, other, drawn)


def _nearer(one: Plug, other: Plug, drawn: Drawn) -> tuple[Plug, Plug]:
    """The same swap at the other ends of both cables, where those are on one device and these are not."""
    apart = one.taken.device != other.taken.device and one.stays.device == other.stays.device
    turned = Plug(one.cable, one.stays, other.stays), Plug(other.cable, other.stays, one.stays)
    return turned if apart and all(drawn.right(Link(plug.stays, plug.into)) for plug in turned) else (one, other)
