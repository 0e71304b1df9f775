"""Which machine is which node, and what differs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hpcforge.blueprint.inventory import Inventory
from hpcforge.cluster import load
from hpcforge.cluster.model import Bmc, Node
from hpcforge.metal.machine_matching import Machine, additions, differences, match, without_machine

ROOT = Path(__file__).parents[3]


@cache
def nodes() -> tuple[Node, ...]:
    """g01 and g02 of a shipped blueprint, of 2 x 8 GPUs."""
    loaded = load(ROOT / "blueprints" / "air-cooled-16.yaml", None)
    return loaded.cluster.by_name["g01"], loaded.cluster.by_name["g02"]


def like(node: Node, **other: object) -> Machine:
    assert node.bmc and node.bmc.address and node.serial and node.mac
    gpus = ("H100",) * (node.gpus.count if node.gpus else 0)
    machine = Machine(
        node.bmc.address,
        None,
        node.serial,
        "",
        "",
        (node.mac,),
        (),
        node.memory_mib / 1024,
        node.sockets,
        gpus,
    )
    return replace(machine, **other)  # type: ignore[arg-type]


def test_a_machine_is_known_by_serial_then_mac_then_address() -> None:
    first, second = nodes()
    assert second.bmc is not None and second.bmc.address is not None
    moved = like(first, address="10.9.9.9")
    assert match(nodes(), [moved]).by == {"g01": "serial"}
    assert match(nodes(), [replace(moved, serial="OTHER")]).by == {"g01": "mac"}
    assert match(nodes(), [Machine(second.bmc.address)]).by == {"g02": "address"}
    assert match(nodes(), [Machine("10.9.9.9")]).unknown == (Machine("10.9.9.9"),)
    assert match(nodes(), [Machine("10.9.9.9")], ["g02"]).by == {"g02": "assigned"}


def test_what_two_machines_show_is_neithers() -> None:
    first, _ = nodes()
    twins = [Machine("10.9.9.8", serial=first.serial or ""), Machine("10.9.9.9", serial=first.serial or "")]
    assert match(nodes(), twins).nodes == {}
    found = match(nodes(), [like(first), Machine("10.9.9.9", macs=(first.mac or "",), serial="X")])
    assert found.by == {"g01": "serial"}
    found = match(nodes(), [like(first), replace(like(first), serial="X", macs=())])
    assert len(found.nodes) == 1 and "both" in found.remarks[0].text


def test_what_is_not_recorded_as_two_machines_show_it_is_named() -> None:
    bare = [replace(node, serial=None, mac=None) for node in nodes()]
    first = Machine("10.9.0.1", serial="SHARED", macs=("3c:ec:ef:00:00:01", "3c:ec:ef:00:00:02"))
    second = Machine("10.9.0.2", serial="SHARED", macs=("3c:ec:ef:00:00:02",))
    matches = match(bare, [first, second], ["g01", "g02"])
    assert [(remark.node, remark.text, remark.less) for remark in matches.remarks] == [
        (node, f"{what} is also that of the machine at {other.address}: it is not recorded", False)
        for node, other in (("g01", second), ("g02", first))
        for what in ("serial number SHARED", "MAC address 3c:ec:ef:00:00:02")
    ]
    assert additions(matches, bare, Inventory.model_construct()) == {}
    had = match(nodes(), [like(nodes()[0]), replace(second, macs=like(nodes()[0]).macs)])
    assert had.remarks == ()  # the inventory has both
    dpu = replace(second, serial="", equipment="DPU")
    assert "at 10.9.0.2" in match(bare, [first, dpu], ["g01"]).remarks[0].text


def test_equipment_is_no_node() -> None:
    first, second = nodes()
    assert first.bmc is not None
    dpu = like(first, equipment="DPU", model="BlueField-3")  # with the serial number, MAC and address of a node
    matches = match(nodes(), [dpu, like(second)])
    assert (matches.by, matches.unknown) == ({"g02": "serial"}, (dpu,))
    assert [(remark.node, remark.text, remark.less) for remark in matches.remarks] == [
        ("g01", f"its controller's address {dpu.address} is not a server's: DPU BlueField-3", True)
    ]
    assert additions(matches, nodes(), Inventory.model_construct()).keys() <= {
        ("g02", "serial"),
        ("g02", "mac"),
        ("g02", "bmc"),
    }
    elsewhere = replace(dpu, address="10.9.9.9")
    assert match(nodes(), [elsewhere], ["g01"]).nodes == {}
    assert match(nodes(), [elsewhere], ["g01"]).remarks[0].text.startswith("0 machines belong to no node")


def test_what_is_not_told_is_no_shortfall() -> None:
    first, _ = nodes()
    assert (
        list(differences(first, like(first, memory_gib=None, sockets=None, gpus=None, notes=("memory: not told",))))
        == []
    )


def test_the_only_interface_that_could_be_read_is_not_taken_for_the_only_one() -> None:
    first, _ = nodes()
    machine = Machine("10.9.9.9", macs=("3c:ec:ef:00:00:01",), linked=("3c:ec:ef:00:00:01",))
    for more_macs in (False, True):
        matches = match(nodes(), [replace(machine, more_macs=more_macs)], ["g01"])
        added = additions(matches, nodes(), Inventory.model_construct())
        assert ((first.name, "mac") in added) is not more_macs


@pytest.mark.parametrize(
    "no_port", ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "33:33:00:00:00:01"]
)
def test_a_mac_address_that_no_port_has_is_not_taken(no_port: str) -> None:
    first, _ = nodes()
    for macs, taken in ((no_port,), None), ((no_port, "3c:ec:ef:00:00:01"), "3c:ec:ef:00:00:01"):
        matches = match(nodes(), [Machine("10.9.9.9", macs=macs)], ["g01"])
        added = additions(matches, nodes(), Inventory.model_construct())
        assert added.get((first.name, "mac")) == taken


@pytest.mark.parametrize("serial", ["0", "Default", "unknown", "Not.Specified"])
def test_a_placeholder_is_not_taken_for_a_serial_number(serial: str) -> None:
    new = [replace(node, serial=None) for node in nodes()]
    for written, taken in (serial, None), ("S213048X8A03214", "S213048X8A03214"):
        matches = match(new, [Machine("10.9.9.9", serial=written)], ["g01"])
        added = additions(matches, new, Inventory.model_construct())
        assert added.get((new[0].name, "serial")) == taken


def test_machines_are_assigned_in_the_order_of_their_addresses() -> None:
    found = match(nodes(), [Machine("10.9.0.10"), Machine("10.9.0.9")], ["g01", "g02"])
    assert {name: machine.address for name, machine in found.nodes.items()} == {"g01": "10.9.0.9", "g02": "10.9.0.10"}


def test_a_machine_with_another_serial_number_is_not_assigned_and_nothing_of_it_is_added() -> None:
    first, second = nodes()
    stranger = Machine("10.9.0.9", "a" * 64, "OTHER")
    matches = match((first, second), [stranger], ["g01"])
    assert matches.nodes == {}
    assert matches.unknown == (stranger,)
    (remark,) = matches.remarks
    assert remark.less and "serial number OTHER" in remark.text
    at_its_place = like(first, serial="OTHER", certificate="a" * 64)
    found = match((first, second), [at_its_place])
    assert found.by == {"g01": "mac"}
    assert additions(found, (first, second), Inventory.model_construct(nodes={})) == {}


def test_what_differs_has_the_line_that_settles_it() -> None:
    first, _ = nodes()
    assert list(differences(first, like(first))) == []
    found = list(differences(first, like(first, memory_gib=256.0, gpus=("H100",) * 3, serial="Z9", sockets=1)))
    assert [remark.less for remark in found] == [True, True, True, True]
    assert found[0].line == "inventory: g01: {serial: Z9}"
    assert found[1].line == "blueprint: overrides: {g01: {memory_gib: 256, reason: WHY}}"
    assert "count: 3" in found[3].line
    more = list(differences(first, like(first, memory_gib=first.memory_mib / 1024 * 2)))
    assert [remark.less for remark in more] == [False]
    [none_listed] = differences(first, like(first, gpus=()))
    assert not none_listed.less and "admission will count" in none_listed.text


def test_only_what_the_inventory_lacks_is_added() -> None:
    first, second = (replace(node, bmc=Bmc(node.bmc.address, None) if node.bmc else None) for node in nodes())
    machines = {"g01": like(first, certificate="a" * 64), "g02": like(second, macs=("a", "b"), serial="-odd")}
    matches = replace(match((), []), nodes=machines)
    had = Inventory.model_validate({"schema": 1, "nodes": {"g01": {"serial": "KEPT", "bmc": {"user": "root"}}}})
    added = additions(matches, (first, second), had)
    assert added == {("g01", "mac"): first.mac, ("g01", "bmc"): {"user": "root", "certificate": "a" * 64}}
    assert without_machine((first, second), replace(matches, nodes={}), {(first.bmc and first.bmc.address) or ""}) == (
        "g01",
    )
