"""Turns in which machines are switched on, or work at full power, within the limits of racks, PDUs and feeds. Pure.

Every machine counts with its maximum from its start. The machines of one turn add at most `STEP` of the limit of a
rack, a PDU or a feed, or the turn is one machine. A machine above the remaining power stays off. The PDUs of a rack
carry equal parts: the design's own rules choose the PDU of each supply.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcforge.design.facility import limits, units
from hpcforge.design.facility.layout import Layout
from hpcforge.design.facility.room import Room

STEP = 0.25  # hpcforge's own choice: no maker publishes what a server draws in its first seconds
WAITING = 0.3  # of its maximum, while others work; hpcforge's own choice: makers publish no power of an idle server
UNPLACED = 8  # machines without a known rack in one turn: as many as a rollout changes at a time


@dataclass(frozen=True)
class Budget:
    """A limit on machines: its power, the other loads on it, and each node's part. All in W."""

    name: str
    limit_w: float
    terms: str  # terms of the limit
    always_w: float
    nodes: Mapping[str, float]


@dataclass(frozen=True)
class Turns:
    """Nodes that start together, turn by turn; and those that stay off, with the arithmetic."""

    turns: tuple[tuple[str, ...], ...]
    refused: Mapping[str, str]


def budgets(room: Room, layout: Layout, lost: Collection[str] = ()) -> tuple[Budget, ...]:
    """Return the limits of the nodes, with some feeds `lost`. Unknown power counts with its known parts."""
    entries: list[Budget] = []
    on_feeds: dict[str, dict[str, float]] = {name: {} for name in room.feeds}
    rest: dict[str, float] = dict.fromkeys(room.feeds, 0.0)
    for name, rack in room.racks.items():
        items = layout.racks[name]
        nodes = {item.name: item.load.least_w for item in items if item.kind == "node"}
        always_w = sum(item.load.least_w for item in items if item.kind != "node")
        if rack.spec.limit_w is not None:
            terms = f"limit_w of rack {name}"
            entries.append(Budget(f"rack {name}", rack.spec.limit_w, terms, always_w, nodes))
        alive = [feed for feed in rack.spec.feeds if feed not in lost]
        for feed in alive:
            part = {node: power_w / len(alive) for node, power_w in nodes.items()}
            limit_w = limits.pdu_w(room, rack, feed)
            if limit_w is not None:
                terms = limits.pdu_terms(room, rack, feed)
                entries.append(
                    Budget(f"a PDU of rack {name} on feed {feed}", limit_w, terms, always_w / len(alive), part)
                )
            for node, power_w in part.items():
                on_feeds[feed][node] = on_feeds[feed].get(node, 0.0) + power_w
            rest[feed] += always_w / len(alive)
    for feed, nodes in on_feeds.items():
        limit_w = limits.feed_w(room, room.feeds[feed])
        if limit_w is not None and feed not in lost:
            entries.append(
                Budget(f"feed {feed}", limit_w, limits.feed_terms(room, room.feeds[feed]), rest[feed], nodes)
            )
    return tuple(entries)


def turns(budgets: Sequence[Budget], on: Collection[str], names: Sequence[str]) -> Turns:
    """Return the turns in which the nodes `names` start, in this order, where those in `on` run already."""
    by_node: dict[str, list[int]] = {}
    for index, budget in enumerate(budgets):
        for node in budget.nodes:
            by_node.setdefault(node, []).append(index)
    load = [budget.always_w + sum(budget.nodes.get(node, 0.0) for node in on) for budget in budgets]
    made: list[list[str]] = []
    steps: list[dict[int, float]] = []  # the added power of each turn, by budget
    refused: dict[str, str] = {}
    for node in names:
        mine = {index: budgets[index].nodes[node] for index in by_node.get(node, ())}
        over = next((index for index, power_w in mine.items() if load[index] + power_w > budgets[index].limit_w), None)
        if over is not None:
            refused[node] = _too_much(budgets[over], load[over], mine[over])
            continue
        for index, power_w in mine.items():
            load[index] += power_w
        turn = next(_fitting(budgets, made, steps, mine), len(made))
        if turn == len(made):
            made.append([])
            steps.append({})
        made[turn].append(node)
        for index, power_w in mine.items():
            steps[turn][index] = steps[turn].get(index, 0.0) + power_w
    return Turns(tuple(map(tuple, made)), refused)


def working(budgets: Sequence[Budget], nodes: Sequence[str]) -> Turns:
    """Return groups of `nodes` that may work at full power at once, while the others of them wait.

    All other nodes count with their maximum. Nodes of unknown power are in the first group.
    """
    waiting = frozenset(nodes)
    base = [
        budget.always_w + sum(power_w * (WAITING if node in waiting else 1.0) for node, power_w in budget.nodes.items())
        for budget in budgets
    ]
    made: list[list[str]] = []
    loads: list[list[float]] = []
    refused: dict[str, str] = {}
    for node in nodes:
        more = [budget.nodes.get(node, 0.0) * (1 - WAITING) for budget in budgets]
        for number in range(len(made) + 1):
            load = loads[number] if number < len(made) else base
            over = next((i for i, more_w in enumerate(more) if more_w and load[i] + more_w > budgets[i].limit_w), None)
            if over is None:
                break
        if over is not None:
            refused[node] = _too_much(budgets[over], base[over], more[over])
            continue
        if number == len(made):
            made.append([])
            loads.append(list(base))
        made[number].append(node)
        loads[number] = [load_w + more_w for load_w, more_w in zip(loads[number], more, strict=True)]
    return Turns(tuple(map(tuple, made)), refused)


def _fitting(
    budgets: Sequence[Budget],
    made: Sequence[Sequence[str]],
    steps: Sequence[Mapping[int, float]],
    mine: Mapping[int, float],
) -> Iterator[int]:
    """Yield the turns in which a node fits."""
    for turn, step in enumerate(steps):
        if (not mine and len(made[turn]) < UNPLACED) or (
            mine
            and all(
                index not in step or step[index] + power_w <= STEP * budgets[index].limit_w
                for index, power_w in mine.items()
            )
        ):
            yield turn


def _too_much(budget: Budget, load_w: float, node_w: float) -> str:
    sum_w = load_w + node_w
    return (
        f"{budget.name}: {units.kw(load_w)} + {units.kw(node_w)} = {units.kw(sum_w)} > "
        f"{units.kw(budget.limit_w)} = {budget.terms}"
    )
