"""Ports of leaves for ends with a rate or a breakout of their own, such as a file server among slower nodes. Pure.

They take the last ports of a leaf that are fast enough, the same ports on every leaf, so that more nodes move no cable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hpcforge.design.fabric.graph import PortBlock
from hpcforge.design.fabric.spec import Ask, CannotBuildError, Model, OwnPorts

_IN_TURN = ("leaf-pair", "rail-optimised")  # topologies in which the links of an end go to leaves in turn


def reserve(ask: Ask, leaves: int) -> Ask:
    """Return what is left to build with ports kept on each leaf for ends spread over some. Raises CannotBuildError."""
    most: dict[OwnPorts, int] = {}
    for own, _, slot in own_places(ask, leaves):
        most[own] = max(most.get(own, 0), slot + 1)
    taken: Counter[int] = Counter()  # by the first port of a kind
    blocks = []
    for own, links in most.items():
        count = -(-links // own.breakout)
        taken[own.first] += count
        if taken[own.first] > own.count:
            what = f"ends of {own.rate_gbps:g} Gb/s take {taken[own.first]} ports of a leaf"
            message = f"{ask.leaf.name} has too few ports for ends with a rate of their own"
            hint = "a switch with more such ports, a `breakout` of these ends, or fewer links"
            raise CannotBuildError("FABRIC-001", message, f"{what} > {own.count}", hint)
        blocks.append(PortBlock(own.first + own.count - taken[own.first], count, own.rate_gbps, own.breakout))
    return replace(ask, leaf=_without(ask.leaf, taken), own_leaves=leaves, own_blocks=tuple(blocks))


def _without(model: Model, taken: Counter[int]) -> Model:
    return replace(
        model,
        end_ports=model.end_ports - taken[model.first_end],
        up_ports=model.up_ports - taken[model.first_up],
    )


def own_places(ask: Ask, leaves: int) -> Iterator[tuple[OwnPorts, int, int]]:
    """Yield ports, leaf and place among them, of each link: all of an end on one leaf, or in turn to each."""
    turn: Counter[OwnPorts] = Counter()
    filled: Counter[tuple[OwnPorts, int]] = Counter()
    for end in ask.endpoints:
        if end.own is None:
            continue
        for link in range(end.links):
            leaf = turn[end.own] % leaves
            yield end.own, leaf, filled[end.own, leaf]
            filled[end.own, leaf] += 1
            turn[end.own] += ask.topology in _IN_TURN or link == end.links - 1


def own_ports(ask: Ask, down: int) -> Iterator[tuple[int, int]]:
    """Yield leaf and logical port of each link of ends with ports of their own, end by end."""
    blocks = blocks_of(ask, down)
    for own, leaf, slot in own_places(ask, ask.own_leaves):
        block = next(
            block
            for block in ask.own_blocks
            if (block.rate_gbps, block.breakout) == (own.rate_gbps, own.breakout)
            and own.first <= block.first < own.first + own.count
        )
        yield leaf, logical(blocks, block.first) + slot


def blocks_of(ask: Ask, down: int) -> tuple[PortBlock, ...]:
    """Return the ports of a leaf that hold ends; `down` of them hold nodes."""
    return (*ask.own_blocks, PortBlock(ask.leaf.first_end, down, ask.rate_gbps, ask.breakout))


def logical(blocks: Iterable[PortBlock], physical: int) -> int:
    """Return the logical port of the first lane of a physical one: each lane before it counts as a port."""
    before = ((block.breakout, min(block.count, max(0, physical - block.first))) for block in blocks)
    return physical + sum(ports * (breakout - 1) for breakout, ports in before)
