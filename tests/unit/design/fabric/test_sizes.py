"""Numbers of switches in trees, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from hpcforge.design.fabric.graph import PortBlock
from hpcforge.design.fabric.sizes import (
    Cores,
    Leaf,
    Spines,
    chunks,
    cores,
    divisors,
    leaf,
    spine_down,
    spines,
    spines_below_cores,
)
from hpcforge.design.fabric.spec import CannotBuildError, Model
from tests.unit.design.fabric.asks import asked

SN2410 = Model("sn2410", 48, 8, first_up=49)  # 48 ports for ends, 8 for uplinks


@pytest.mark.parametrize(
    ("more", "share"),
    [
        ({}, Leaf(32, 32, 32)),
        ({"leaf_oversubscription": 3.0}, Leaf(48, 16, 48)),
        ({"breakout": 2}, Leaf(32, 32, 64)),
        ({"breakout": 2, "uplink_rate_gbps": 100.0}, Leaf(21, 42, 42)),
        ({"uplinks": 10}, Leaf(54, 10, 54)),
        ({"own_blocks": (PortBlock(1, 4, 200.0, 1),)}, Leaf(28, 36, 28)),
        ({"leaf": SN2410, "rate_gbps": 25.0}, Leaf(32, 8, 32)),
        ({"leaf": SN2410, "rate_gbps": 1.0}, Leaf(48, 2, 48)),  # two, so that one may fail
    ],
)
def test_ports_of_a_leaf_are_shared_out(more: dict[str, Any], share: Leaf) -> None:
    assert leaf(asked(8, **more)) == share


def test_a_leaf_without_a_port_for_ends_cannot_be_built() -> None:
    with pytest.raises(CannotBuildError) as refused:
        leaf(asked(8, 4, uplinks=4))
    assert (refused.value.code, refused.value.arithmetic) == (
        "FABRIC-001",
        "1 port for ends + 4 uplinks > 4 ports of switch",
    )


@pytest.mark.parametrize(
    ("leaves", "uplinks", "group"),
    [
        (8, 32, Spines(4, 8, 8)),
        (24, 32, Spines(16, 2, 32)),  # three units of DGX H100: 12 would do, and 32 is no multiple of 12
        (64, 32, Spines(32, 1, 64)),
        (65, 32, None),
    ],
)
def test_every_leaf_reaches_every_spine_by_as_many_links(leaves: int, uplinks: int, group: Spines | None) -> None:
    assert spines(leaves, uplinks, Model("qm9700", 64, 64)) == group


@pytest.mark.parametrize(("ratio", "down"), [(1.0, 32), (3.0, 48), (2.0, 42)])
def test_a_spine_below_cores_keeps_ports_for_them(ratio: float, down: int) -> None:
    assert spine_down(asked(8, spine_oversubscription=ratio)) == down


def test_spines_below_cores_have_as_many_uplinks_as_links_to_leaves() -> None:
    assert spines_below_cores(asked(8), 32, 32) == Spines(32, 1, 32, uplinks=32, first_up=33)
    assert spines_below_cores(asked(8, spine_oversubscription=2.0), 20, 32) == Spines(16, 2, 21, 20, 43)


@pytest.mark.parametrize(
    ("groups", "above"),
    [
        (2, Cores(1, 32, 1, 64)),  # 2 groups of 32 spines with 32 uplinks: 2,048 links on 32 cores
        (4, Cores(2, 32, 1, 64)),
        (64, Cores(32, 32, 1, 64)),
        (65, None),
    ],
)
def test_the_fewest_cores_of_the_fewest_planes(groups: int, above: Cores | None) -> None:
    group = Spines(32, 1, 32, uplinks=32, first_up=33)
    assert cores(groups, group, Model("qm9700", 64, 64)) == above
    assert above is None or above.count == groups * 32 * 32 // 64


@pytest.mark.parametrize(("things", "most", "size"), [(10, 4, 4), (9, 4, 3), (8, 4, 4), (1, 4, 1), (33, 32, 17)])
def test_chunks_are_few_and_even(things: int, most: int, size: int) -> None:
    assert chunks(things, most) == size


def test_divisors_rise() -> None:
    assert list(divisors(12)) == [1, 2, 3, 4, 6, 12]
