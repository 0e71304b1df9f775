"""Nodes that come and go, as edits of the small blueprint."""

from __future__ import annotations

from typing import Any

import pytest

from hpcforge.blueprint.edit import EditError, RemoveEntry, RenameKey, SetValue, edited
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.membership import Newcomers, added, dropped, removed, replaced, spelled
from hpcforge.blueprint.schema import Blueprint
from tests.unit.blueprint.drafts import SMALL, draft

OLD_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
MACHINE = {
    "mac": "3c:ec:ef:00:00:01",
    "host_keys": [OLD_KEY],
    "serial": "S1",
    "bmc": {"address": "10.2.0.11", "mac": "3c:ec:ef:00:00:02"},
}


def blueprint(*changes: tuple[str, str]) -> Blueprint:
    model = draft(*changes).model
    assert isinstance(model, Blueprint)
    return model


def inventory(**nodes: Any) -> Inventory:
    return Inventory.model_validate({"schema": "1", "nodes": nodes})


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["w01", "w02", "w04"], "w[01-02,04]"),
        (["w2", "w1"], "w2,w1"),  # in this order
        (["w9", "w10"], "w[9-10]"),
        (["w09", "w010"], "w09,w010"),
        (["a1", "b1", "b2"], "a1,b[1-2]"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
        (["head"], "head"),
        ([], ""),
    ],
)
def test_names_are_a_short_hostlist_in_their_order(names: list[str], text: str) -> None:
    assert spelled(names) == text


def test_a_group_grows_with_its_addresses_and_what_names_all_of_it() -> None:
    changed = blueprint(
        ("main: {nodes: all,", 'main: {nodes: "w[01-04]",'), ("allreduce: {nodes: all}", "allreduce: {nodes: w01}")
    )
    edits = added(changed, None, Newcomers(("w05", "w06")))
    assert edits.inventory == ()
    assert edits.blueprint == (
        SetValue(("nodes", "w[01-04]", "addresses"), "10.1.0.[11-16]"),
        SetValue(("slurm", "partitions", "main", "nodes"), "w[01-06]"),
        RenameKey(("nodes", "w[01-04]"), "w[01-06]"),
    )


def test_a_new_machine_is_in_the_inventory_with_what_is_known_of_it() -> None:
    new = Newcomers(
        ("w05",), addresses=("10.1.0.9",), macs=("3c:ec:ef:00:00:09",), bmcs=("10.2.0.9, 3c:ec:ef:00:00:0a",)
    )
    edits = added(blueprint(), inventory(), new)
    entry = {"mac": "3c:ec:ef:00:00:09", "bmc": {"address": "10.2.0.9", "mac": "3c:ec:ef:00:00:0a"}}
    assert edits.inventory == (SetValue(("nodes", "w05"), entry),)


@pytest.mark.parametrize(
    "new",
    [
        Newcomers(("w01",)),  # it is there
        Newcomers(("x01",)),  # no group has such names
        Newcomers(("w05", "head2")),
        Newcomers(("x01",), like="nosuch"),
        Newcomers(("w05",), addresses=("10.1.0.5", "10.1.0.6")),
        Newcomers(("w05", "w06"), host_keys=(OLD_KEY,)),
        Newcomers(("w05", "w06"), macs=("3c:ec:ef:00:00:01",)),
        Newcomers(("w05",), bmcs=("10.2.0.9, 10.2.0.8",)),
        Newcomers(("w05",), serials=("S1",)),  # and no inventory to write it to
    ],
)
def test_what_cannot_be_told_is_refused(new: Newcomers) -> None:
    with pytest.raises(EditError):
        added(blueprint(), None, new)


def test_a_next_address_that_is_in_use_is_refused() -> None:
    with pytest.raises(EditError):
        added(blueprint(("addresses: 10.1.0.1}", "addresses: 10.1.0.15}")), None, Newcomers(("w05",)))


def test_a_node_leaves_every_place_that_names_it() -> None:
    changes = (
        ("acceptance:", "overrides: {w02: {sockets: 1, reason: seen}}\nacceptance:"),
        ("allreduce: {nodes: all}", 'allreduce: {nodes: "w[01-02]"}'),
    )
    edits = removed(blueprint(*changes), inventory(w02=MACHINE, w03=MACHINE), ["w02"], {})
    assert edits.blueprint == (
        SetValue(("acceptance", "tests", "allreduce", "nodes"), "w01"),
        RemoveEntry(("overrides", "w02")),
        SetValue(("nodes", "w[01-04]", "addresses"), "10.1.0.[11,13-14]"),
        RenameKey(("nodes", "w[01-04]"), "w[01,03-04]"),
    )
    assert edits.inventory == (RemoveEntry(("nodes", "w02")),)


def test_a_group_of_one_keeps_its_brackets_and_an_empty_one_goes() -> None:
    edits = removed(blueprint(), None, ["w01", "w02", "w03"], {})
    assert edits.blueprint[-1] == RenameKey(("nodes", "w[01-04]"), "w[04]")
    assert removed(blueprint(), None, ["head"], {}).blueprint[-1] == RemoveEntry(("nodes", "head"))


def test_nodes_behind_a_removed_one_are_pinned_where_they_stand() -> None:
    racks = ('addresses: "10.1.0.[11-14]"', 'addresses: "10.1.0.[11-14]", rack: r1, u: [1, 3, 5, 7]')
    places = {f"w0{number}": ("r1", 2 * number - 1) for number in range(1, 5)}
    edits = removed(blueprint(racks), inventory(), ["w02"], places)
    assert edits.inventory == (
        SetValue(("positions", "w03"), {"rack": "r1", "u": 5}),
        SetValue(("positions", "w04"), {"rack": "r1", "u": 7}),
    )


@pytest.mark.parametrize(
    ("new", "entries"),
    [
        (Newcomers(("w01",)), ["host_keys", "mac", "bmc.mac", "serial"]),
        (Newcomers(("w01",), same=True), ["host_keys"]),
        (Newcomers(("w01",), macs=("3c:ec:ef:00:00:09",), serials=("S2",)), ["host_keys", "bmc.mac"]),
        (Newcomers(("w01",), host_keys=(OLD_KEY,), bmcs=("10.2.0.9",)), ["mac", "serial"]),
        (Newcomers(("w02",)), []),
    ],
)
def test_of_a_replaced_machine_goes_what_the_new_one_does_not_have(new: Newcomers, entries: list[str]) -> None:
    assert [".".join(map(str, loc)) for loc in dropped(inventory(w01=MACHINE), new)] == entries


@pytest.mark.parametrize(
    ("machines", "in_blueprint", "in_inventory"),
    [
        (inventory(w02=MACHINE), SetValue(("nodes", "w[01-04]", "addresses"), "10.1.0.[11,99],10.1.0.[13-14]"), None),
        (inventory(w02={"address": "10.1.0.12"}), None, SetValue(("nodes", "w02", "address"), "10.1.0.99")),
    ],
)  # fmt: skip
def test_another_address_is_written_where_the_old_one_is(
    machines: Inventory, in_blueprint: SetValue | None, in_inventory: SetValue | None
) -> None:
    edits = replaced(blueprint(), machines, Newcomers(("w02",), addresses=("10.1.0.99",)))
    assert edits.blueprint == ((in_blueprint,) if in_blueprint else ())
    assert (in_inventory in edits.inventory) == (in_inventory is not None)


def test_edits_make_a_right_file() -> None:
    text = edited(SMALL, added(blueprint(), None, Newcomers(("w05",))).blueprint)
    grown = draft(text=text).model
    assert isinstance(grown, Blueprint)
    assert list(grown.nodes) == ["head", "w[01-05]"]
    assert grown.nodes["w[01-05]"].addresses == "10.1.0.[11-15]"
