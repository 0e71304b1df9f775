"""Turns in which machines start, by what racks, PDUs and feeds of the shipped designs carry."""

from __future__ import annotations

from hpcforge.cluster import Loaded, load
from hpcforge.design.facility.power_on import STEP, UNPLACED, Budget, budgets, turns, working
from tests.unit.design.facility.designs import shipped


def loaded(name: str) -> Loaded:
    return load(shipped(name), None)


def test_every_node_of_a_design_starts_once_and_no_step_is_too_large() -> None:
    site = loaded("dgx-h100-unit")
    names = [node.name for node in site.cluster.nodes]
    of = budgets(site.placed.room, site.placed.layout)
    found = turns(of, (), names)
    assert sorted(node for turn in found.turns for node in turn) == sorted(names)
    assert found.refused == {}
    assert len(found.turns) > 1
    for turn in found.turns:
        for budget in of:
            starting = [budget.nodes[node] for node in turn if node in budget.nodes]
            assert len(starting) <= 1 or sum(starting) <= STEP * budget.limit_w


def test_with_feeds_lost_as_many_start_as_the_others_carry() -> None:
    site = loaded("dgx-h100-unit")
    names = [node.name for node in site.cluster.nodes]
    feeds = list(site.placed.room.feeds)
    found = turns(budgets(site.placed.room, site.placed.layout, feeds[1:]), (), names)
    started = {node for turn in found.turns for node in turn}
    assert found.refused
    assert started | found.refused.keys() == set(names)
    for why in found.refused.values():
        assert " > " in why and "kW" in why
    for budget in budgets(site.placed.room, site.placed.layout, feeds[1:]):
        assert budget.always_w + sum(budget.nodes.get(node, 0) for node in started) <= budget.limit_w


def test_nodes_that_run_already_count() -> None:
    of = [Budget("rack r", 1000, "limit_w of rack r", 100, {"a": 400, "b": 400, "c": 400})]
    assert turns(of, (), ("a", "b")).turns == (("a",), ("b",))
    found = turns(of, ("c",), ("a", "b"))
    assert found.turns == (("a",),)
    assert found.refused == {"b": "rack r: 900 W + 400 W = 1.3 kW > 1.0 kW = limit_w of rack r"}


def test_without_racks_some_start_at_a_time() -> None:
    names = [f"n{number}" for number in range(UNPLACED + 1)]
    assert [len(turn) for turn in turns((), (), names).turns] == [UNPLACED, 1]


def test_nodes_that_work_at_once_exceed_nothing_while_the_others_wait() -> None:
    of = [Budget("rack r", 1000, "limit_w of rack r", 100, {"a": 400, "b": 400, "c": 400})]
    found = working(of, ("a", "b", "c"))  # 100 + 3 x 120 W, and 280 W more for each that works
    assert (found.turns, found.refused) == ((("a",), ("b",), ("c",)), {})
    found = working(of, ("a", "b"))  # c, which is not asked for, is at its maximum
    assert found.turns == ()
    assert found.refused["a"] == "rack r: 740 W + 280 W = 1.0 kW > 1.0 kW = limit_w of rack r"
    more = [*of, Budget("feed F", 1200, "a breaker", 0, {"a": 400, "d": 900})]
    assert working(more, ("a", "b", "c", "d")).turns == (("a",), ("b", "d"), ("c",))
    assert working((), ("a", "b")).turns == (("a", "b"),)


def test_all_nodes_of_a_design_that_carries_them_work_at_once() -> None:
    site = loaded("dgx-h100-unit")
    names = [node.name for node in site.cluster.workers]
    assert working(budgets(site.placed.room, site.placed.layout), names).turns == (tuple(names),)
