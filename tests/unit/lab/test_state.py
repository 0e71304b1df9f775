"""What a lab becomes by saves and restores, and the words of their mistakes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.lab import state
from hpcforge.lab.errors import LabError
from hpcforge.lab.names import check_save_name
from hpcforge.lab.state import Lab, PlacedNode, UnderWay


def lab(disks_made: int = 2) -> Lab:
    nodes = (PlacedNode("head", "10.7.0.10", True, ("/c/lists", "/c/system"), (1,)),)
    return Lab(
        name="one", kind="nspawn", tag="hf0001", cidr="10.7.0.0/24", gateway="10.7.0.1", packages_port=3177,
        packages_cache="/c/apt/0", login_user="ops", release="12", blueprint="/b.yaml", network="cluster",
        nodes=(*nodes, PlacedNode("w01", "10.7.0.11", False, ("/c/system",), (2,))),
        in_blueprint=("head", "w01"), disks_made=disks_made,
    )  # fmt: skip


def saved(before: Lab, name: str, running: tuple[str, ...] = ("head",)) -> Lab:
    return state.ended(state.saved(before, name, saved_s=1.0, running=running))


def disks(lab: Lab) -> dict[str, tuple[int, ...]]:
    return {node.name: node.disks for node in lab.nodes}


def test_a_save_puts_a_new_disk_above_all_that_there_are() -> None:
    before = lab()
    after = state.saved(before, "first", saved_s=1.0, running={"head"})
    assert disks(after) == {"head": (3, 1), "w01": (4, 2)}
    assert after.save("first").nodes == before.nodes
    assert after.under_way == UnderWay("saved", "first", ("head",))
    assert state.wanted_disks(after) == {("head", 3), ("head", 1), ("w01", 4), ("w01", 2)}


def test_a_restore_puts_a_new_disk_above_those_of_the_save() -> None:
    after = state.restored(saved(saved(lab(), "first"), "second"), saved(lab(), "first").save("first"), None)
    assert disks(after) == {"head": (7, 1), "w01": (8, 2)}
    assert after.under_way == UnderWay("restored", "first", ("head",))
    assert state.wanted_disks(after) >= {("head", 3), ("w01", 4)}  # of the second, which nobody lies on now


def test_a_node_that_came_later_goes_with_a_restore_and_comes_back_with_its_own_save() -> None:
    first = saved(lab(), "first")
    newcomer = PlacedNode("w02", "10.7.0.12", False, ("/c/new",), (5,))
    grown = replace(first, nodes=(*first.nodes, newcomer), in_blueprint=("head", "w01", "w02"), disks_made=5)
    both = saved(grown, "both")
    back = state.restored(both, both.save("first"), None)
    assert list(disks(back)) == ["head", "w01"]
    assert back.in_blueprint == ("head", "w01")
    assert ("w02", 5) in state.wanted_disks(back)
    assert Path("/c/new") in back.trees  # of a save alone: base trees are not swept from under it
    assert disks(state.restored(back, back.save("both"), None))["w02"][1:] == (5,)
    assert ("w02", 5) not in state.wanted_disks(state.forgotten(back, "both"))


def test_some_nodes_are_restored_and_the_others_stay() -> None:
    first = saved(lab(), "first", ("head", "w01"))
    after = state.restored(first, first.save("first"), ["w01"])
    assert disks(after) == {"head": (3, 1), "w01": (5, 2)}
    assert after.under_way == UnderWay("restored", "first", ("w01",))
    with pytest.raises(LabError, match="save first has no node 'w09'"):
        state.restored(first, first.save("first"), ["w09"])


def test_no_number_is_given_twice_whatever_is_forgotten() -> None:
    now, seen = lab(), {1, 2}
    for turn in range(4):
        now = saved(now, "again")
        now = state.restored(now, now.save("again"), None) if turn % 2 else state.without_disks(now, ["w01"])
        new = {node.disks[0] for node in now.nodes} - {node.disks[0] for node in now.save("again").nodes}
        assert min(new) > max(seen)
        seen |= {disk for node in now.nodes for disk in node.disks}
    assert now.disks_made == max(seen)


def test_a_disk_that_goes_leaves_those_of_saves() -> None:
    after = state.without_disks(saved(lab(), "first"), ["w01"])
    assert disks(after) == {"head": (3, 1), "w01": (5,)}
    assert ("w01", 2) in state.wanted_disks(after)


def test_a_node_that_is_stopped_need_not_be_started_any_more() -> None:
    half = state.saved(lab(), "first", saved_s=1.0, running={"head", "w01"})
    assert state.ended(half, ["w01"]).under_way == UnderWay("saved", "first", ("head",))
    assert state.ended(half).under_way is None


def test_what_cannot_be_saved_or_found() -> None:
    first = saved(lab(), "first")
    with pytest.raises(LabError, match="has a save 'first' already") as twice:
        state.check_save(first, "first", replacing=False)
    assert "--replace" in twice.value.hint
    state.check_save(first, "first", replacing=True)
    with pytest.raises(LabError, match=r"no save 'frist' \(there are: first\)"):
        first.save("frist")
    with pytest.raises(LabError, match=r"no save 'first' \(there are: none\)"):
        state.forgotten(lab(), "first")
    deep = first
    for _ in range(state.MOST_DISKS - 2):
        deep = saved(deep, "again")
    with pytest.raises(LabError, match="already uses the disks of 99 saves"):
        state.check_save(deep, "again", replacing=True)


@pytest.mark.parametrize("name", ["a", "before-24.11", "2026-11-22", "a_b", "a" * 32])
def test_names_of_saves(name: str) -> None:
    assert check_save_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a..b", "../a", "a/b", "A", "a b", "a\n", "a-", "a" * 33])
def test_names_that_no_save_has(name: str) -> None:
    with pytest.raises(LabError, match="is not a valid save name"):
        check_save_name(name)
