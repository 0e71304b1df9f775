"""The specification of a fabric: sums of links and rates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpcforge.design.fabric.graph import PortBlock
from hpcforge.design.fabric.spec import Model, OtherEnd, OwnPorts, whole
from tests.unit.design.fabric.asks import asked


@pytest.mark.parametrize(("ratio", "number"), [(2.0, 2), (2.1, 3), (3 * 1.1 / 1.1, 3), (0.3 / 0.1, 3), (0.0, 0)])
def test_what_floating_point_adds_does_not_count(ratio: float, number: int) -> None:
    assert whole(ratio) == number


@pytest.mark.parametrize(
    ("nodes", "more", "room", "slots"),
    [
        (4, {}, 4, 4),
        (4, {"rails": 8, "designed_for": 6}, 6, 48),
        (4, {"designed_for": 2}, 4, 4),
        (0, {"endpoints": (OtherEnd("ufm", 2),)}, 1, 3),  # a fabric of other ends alone has a switch, too
    ],
)
def test_room_is_for_all_nodes_and_for_those_to_come(nodes: int, more: dict[str, Any], room: int, slots: int) -> None:
    ask = asked(nodes, **more)
    assert (ask.room, ask.slots) == (room, slots)


def test_ends_with_ports_of_their_own_take_none_of_the_others() -> None:
    own = OtherEnd("storage", 4, OwnPorts(200.0, 2, 5, 2))
    ask = replace(asked(4, breakout=4), endpoints=(OtherEnd("ufm", 2), own), own_blocks=(PortBlock(5, 2, 200.0, 2),))
    assert (ask.other_links, ask.slots, ask.own_gbps, ask.port_rate_gbps) == (2, 6, 800.0, 400.0)


@pytest.mark.parametrize(("first_up", "shared"), [(1, True), (49, False)])
def test_a_model_may_have_ports_for_uplinks_alone(first_up: int, shared: bool) -> None:
    assert Model("m", 48, 8, first_up=first_up).shared is shared
