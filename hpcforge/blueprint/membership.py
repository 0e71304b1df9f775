"""Nodes that join and leave, as edits of a blueprint and its inventory. Pure.

A group of nodes is a hostlist, with lists by position beside it (addresses). A node set that names a whole group (of a
partition, a test, a site's role) grows with the group; a set that names a part of it does not. The result is not
checked here, but read and checked like any blueprint before it is written.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcforge.blueprint import hostlist, node_sets
from hpcforge.blueprint.edit import Edit, EditError, RemoveEntry, RenameKey, SetValue
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.positions import Place
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.nodes import NodeGroup
from hpcforge.blueprint.visible_nodes import racks_of, set_names


@dataclass(frozen=True)
class Edits:
    """Edits of the blueprint, and of its inventory."""

    blueprint: tuple[Edit, ...] = ()
    inventory: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Newcomers:
    """Machines that get names. Without addresses, new nodes get the addresses after the group's last one."""

    names: tuple[str, ...]
    like: str | None = None  # a node of the group that grows; None: the group with similar names
    addresses: tuple[str, ...] = ()
    host_keys: tuple[str, ...] = ()  # host keys of one new node
    macs: tuple[str, ...] = ()  # macs, bmcs, serials: none, or one for each new node
    bmcs: tuple[str, ...] = ()  # an address, a MAC address, or both with a comma
    serials: tuple[str, ...] = ()
    same: bool = False  # a replacement keeps the machine, and gets another operating system


def added(blueprint: Blueprint, inventory: Inventory | None, new: Newcomers) -> Edits:
    """Return how the nodes are added. Raises `EditError` where it cannot be told how."""
    existing = [name for name in new.names if name in _group_of(blueprint)]
    if existing:
        raise EditError(
            f"{hostlist.fold(existing)} is in the blueprint already", "a new machine: hpcforge nodes replace"
        )
    if new.host_keys and len(new.names) > 1:
        raise EditError("a host key belongs to one machine", "add the nodes one by one, or apply with --trust-new")
    key = _group_to_grow(blueprint, new)
    group, members = blueprint.nodes[key], hostlist.expand(key)
    addresses = _addresses(blueprint, inventory, group, new)
    edits: list[Edit] = []
    if group.addresses is not None:
        all_addresses = (*hostlist.expand(group.addresses), *addresses)
        edits.append(SetValue(("nodes", key, "addresses"), spelled(all_addresses)))
    for loc, texts in _references(blueprint):
        grown = [_grown(text, members, new.names) for text in texts]
        if grown != list(texts):
            edits.append(_written(loc, grown))
    edits.append(RenameKey(("nodes", key), spelled((*members, *new.names))))
    machines = []
    for name, address, facts in zip(new.names, addresses, _inventory_facts(new), strict=True):
        entry: dict[str, object] = {} if group.addresses is not None else {"address": address}
        if new.host_keys:
            entry["host_keys"] = list(new.host_keys)
        entry |= facts
        if entry:
            machines.append(SetValue(("nodes", name), entry))
    _require_inventory(inventory, machines)
    return Edits(tuple(edits), tuple(machines))


def _inventory_facts(new: Newcomers) -> Iterator[dict[str, object]]:
    """Yield for each new node what the inventory is to have of its machine beside address and host keys."""
    for option, values in (("--mac", new.macs), ("--bmc", new.bmcs), ("--serial", new.serials)):
        if values and len(values) != len(new.names):
            count = f"{len(new.names)} name{'s' * (len(new.names) != 1)} but {len(values)} of {option}"
            raise EditError(count, f"give {option} once for each node, in their order")
    for place in range(len(new.names)):
        entry: dict[str, object] = {"mac": new.macs[place]} if new.macs else {}
        if new.bmcs:
            parts = [part.strip() for part in new.bmcs[place].split(",")]
            entry["bmc"] = {"mac" if ":" in part else "address": part for part in parts}
            if len(parts) != len(entry["bmc"]):  # type: ignore[arg-type]
                hint = "write --bmc 10.10.0.43, --bmc 02:00:0a:0a:00:2b, or both with a comma between"
                raise EditError(f"`{new.bmcs[place]}` is more than an address and a MAC address", hint)
        yield entry | ({"serial": new.serials[place]} if new.serials else {})


def removed(
    blueprint: Blueprint, inventory: Inventory | None, names: Collection[str], places: Mapping[str, Place]
) -> Edits:
    """Return how the nodes are taken out, with the entries that concern them alone. Raises `EditError`.

    `places` are those in racks: nodes of a group with `u` are pinned where they stand.
    """
    _require_declared(blueprint, names)
    edits: list[Edit] = []
    for loc, texts in _references(blueprint):
        shrunk = [_shrunk(text, names) for text in texts]
        if shrunk != list(texts):
            edits.append(_written(loc, shrunk))
    edits += [RemoveEntry(("overrides", name)) for name in blueprint.overrides if name in names]
    for key, group in blueprint.nodes.items():
        members = hostlist.expand(key)
        stay = [index for index, name in enumerate(members) if name not in names]
        if not stay:
            edits.append(RemoveEntry(("nodes", key)))
        elif len(stay) < len(members):
            if group.addresses is not None:
                addresses = hostlist.expand(group.addresses)
                edits.append(SetValue(("nodes", key, "addresses"), spelled([addresses[index] for index in stay])))
            edits.append(RenameKey(("nodes", key), _key([members[index] for index in stay], key)))
    machines = [] if inventory is None else [RemoveEntry(("nodes", name)) for name in inventory.nodes if name in names]
    pinned = (
        [] if inventory is None else [RemoveEntry(("positions", name)) for name in inventory.positions if name in names]
    )
    stay_there = [] if inventory is None else list(_pinned(blueprint, inventory, names, places))
    return Edits(tuple(edits), (*machines, *stay_there, *pinned))


def _pinned(
    blueprint: Blueprint, inventory: Inventory, names: Collection[str], places: Mapping[str, Place]
) -> Iterator[SetValue]:
    """Yield positions of the nodes that follow a removed one in a list of places, and would move up."""
    for key, group in blueprint.nodes.items():
        members = hostlist.expand(key)
        first = next((index for index, name in enumerate(members) if name in names), len(members))
        for name in members[first:] if group.u else ():
            if name not in names and name in places and name not in inventory.positions:
                rack, u = places[name]
                yield SetValue(("positions", name), {"rack": rack, "u": u})


def replaced(blueprint: Blueprint, inventory: Inventory | None, new: Newcomers) -> Edits:
    """Return how the one name of `new` gets another machine. Raises `EditError`.

    What the inventory has of the old machine goes, or becomes what `new` has; see `dropped`.
    """
    [name] = new.names
    _require_declared(blueprint, [name])
    [of_new] = _inventory_facts(new)
    if new.host_keys:
        of_new["host_keys"] = list(new.host_keys)
    edits, machine = _moved(blueprint, inventory, name, *new.addresses)
    machine += [RemoveEntry(("nodes", name, *loc)) for loc in dropped(inventory, new)]
    machine += [SetValue(("nodes", name, key), value) for key, value in of_new.items()]
    _require_inventory(inventory, machine)
    return Edits(tuple(edits), tuple(machine))


def dropped(inventory: Inventory | None, new: Newcomers) -> list[Loc]:
    """Return the entries of the old machine to remove from the inventory, if `new` does not replace them.

    Addresses stay, that of the management controller too: they belong to the name.
    """
    [name] = new.names
    machine = inventory.nodes.get(name) if inventory else None
    if machine is None:
        return []
    bmc = machine.bmc if machine.bmc and not new.bmcs else None
    is_old: dict[Loc, bool] = {
        ("host_keys",): bool(machine.host_keys) and not new.host_keys,
        ("mac",): machine.mac is not None and not new.macs and not new.same,
        ("ports",): bool(machine.ports) and not new.same,
        ("bmc", "mac"): bmc is not None and bmc.mac is not None and not new.same,
        ("bmc", "certificate"): bmc is not None and bmc.certificate is not None and not new.same,
        ("serial",): machine.serial is not None and not new.serials and not new.same,
    }
    return [loc for loc, remove in is_old.items() if remove]


def _moved(
    blueprint: Blueprint, inventory: Inventory | None, name: str, address: str | None = None
) -> tuple[list[Edit], list[Edit]]:
    """Return edits of blueprint and inventory that give a node another address, if any."""
    inventory_machine = inventory.nodes.get(name) if inventory else None
    edits: list[Edit] = []
    machine: list[Edit] = []
    if address is not None and inventory_machine is not None and inventory_machine.address is not None:
        machine.append(SetValue(("nodes", name, "address"), address))
    elif address is not None:
        key = _group_of(blueprint)[name]
        group = blueprint.nodes[key]
        if group.addresses is None:
            machine.append(SetValue(("nodes", name, "address"), address))
        else:
            members, addresses = hostlist.expand(key), list(hostlist.expand(group.addresses))
            addresses[members.index(name)] = address
            edits.append(SetValue(("nodes", key, "addresses"), spelled(addresses)))
    return edits, machine


def spelled(names: Sequence[str]) -> str:
    """Return a short hostlist that stands for these names in this order: w[01-04], or parts of it joined by commas."""
    parts: list[list[str]] = []
    for name in names:
        if parts and _follows(parts[-1][-1], name):
            parts[-1].append(name)
        else:
            parts.append([name])
    return ",".join(hostlist.fold(part) for part in parts)


def _key(names: Sequence[str], old: str) -> str:
    """Return the new key of a renamed group. One node keeps brackets: `w` names the group w[01], but none of w01."""
    key = spelled(names)
    return re.sub(r"(?<![0-9])([0-9]+)$", r"[\1]", key) if len(names) == 1 and "[" in old else key


def _follows(name: str, successor: str) -> bool:
    """Return True if both fit into one pair of brackets in this order: a higher last number, and padded alike."""
    first, second = (re.fullmatch(r"(.*[^0-9]|)([0-9]+)", text) for text in (name, successor))
    if first is None or second is None or first[1] != second[1] or int(second[2]) <= int(first[2]):
        return False
    padded = any(number.startswith("0") and number != "0" for number in (first[2], second[2]))
    return len(first[2]) == len(second[2]) or not padded


def _group_of(blueprint: Blueprint) -> dict[str, str]:
    return {name: key for key in blueprint.nodes for name in hostlist.expand(key)}


def _group_to_grow(blueprint: Blueprint, new: Newcomers) -> str:
    groups = _group_of(blueprint)
    if new.like is not None:
        if new.like not in groups:
            raise EditError(f"{new.like} is not a node of this blueprint", f"its nodes: {hostlist.fold(groups)}")
        return groups[new.like]
    stems = {_stem(name) for name in new.names}
    similar = sorted({key for name, key in groups.items() if _stem(name) in stems})
    if len(similar) != 1 or len(stems) != 1:
        which = (
            f"{hostlist.fold(new.names)} could belong to {', '.join(similar)}"
            if similar
            else "no group has similar names"
        )
        raise EditError(f"{which}: the group that grows is not clear", "name one of its nodes: --like NODE")
    return similar[0]


def _stem(name: str) -> str:
    return name.rstrip("0123456789")


def _addresses(blueprint: Blueprint, inventory: Inventory | None, group: NodeGroup, new: Newcomers) -> tuple[str, ...]:
    if new.addresses:
        if len(new.addresses) != len(new.names):
            raise EditError(f"{len(new.names)} names but {len(new.addresses)} addresses", "give one for each node")
        return new.addresses
    if group.addresses is None:
        raise EditError("the inventory has this group's addresses", "give the new ones: --addresses 10.20.0.[43-44]")
    used = {
        address
        for node_group in blueprint.nodes.values()
        if node_group.addresses
        for address in hostlist.expand(node_group.addresses)
    }
    used |= {machine.address for machine in (inventory.nodes.values() if inventory else ()) if machine.address}
    last = ipaddress.IPv4Address(hostlist.expand(group.addresses)[-1])
    following = tuple(str(last + step) for step in range(1, len(new.names) + 1))
    clash = [address for address in following if address in used]
    if clash:
        raise EditError(f"the next address after the group's last, {clash[0]}, is in use", "say others: --addresses")
    return following


def _grown(text: str, members: Sequence[str], new: Sequence[str]) -> str:
    """Add new nodes to a node set where it names all of their group."""
    return node_sets.rewritten(text, lambda _, names: (*names, *new) if set(members) <= set(names) else names, spelled)


def _shrunk(text: str, removed: Collection[str]) -> str:
    """Remove nodes from a node set; an empty result is refused with its place when it is read."""
    return node_sets.rewritten(text, lambda _, names: tuple(name for name in names if name not in removed), spelled)


def _written(loc: Loc, texts: Sequence[str]) -> SetValue:
    return SetValue(loc, texts[0] if len(texts) == 1 else list(texts))


def _references(blueprint: Blueprint) -> Iterator[tuple[Loc, tuple[str, ...]]]:
    """Yield every place with node sets outside `nodes`."""
    for name, partition in blueprint.slurm.partitions.items():
        yield ("slurm", "partitions", name, "nodes"), (partition.nodes,)
    for name, reservation in blueprint.slurm.reservations.items():
        yield ("slurm", "reservations", name, "nodes"), (reservation.nodes,)
    for test, chosen in blueprint.acceptance.tests.by_name().items() if blueprint.acceptance else ():
        if node_sets.EACH_PARTITION not in chosen.nodes:
            yield ("acceptance", "tests", test, "nodes"), chosen.nodes
    for index, role in enumerate(blueprint.software.site_roles):
        yield ("software", "site_roles", index, "on"), (role.on,)
    for name, service in blueprint.services.by_name().items():
        if service.on_set is not None:
            yield ("services", name, "on"), (service.on_set,)
    for name, network in blueprint.networks.items():
        if network.nodes is not None:
            yield ("networks", name, "nodes"), (network.nodes,)
    for name, fabric in blueprint.fabrics.items():
        yield ("fabrics", name, "nodes"), (fabric.nodes,)
        for end, ends in fabric.endpoints.items():
            if ends.nodes is not None:
                yield ("fabrics", name, "endpoints", end, "nodes"), (ends.nodes,)


def _require_declared(blueprint: Blueprint, names: Collection[str]) -> None:
    groups = _group_of(blueprint)
    unknown = [name for name in names if name not in groups]
    if unknown:
        raise EditError(f"{hostlist.fold(unknown)} is not in the blueprint", f"its nodes: {hostlist.fold(groups)}")


def _require_inventory(inventory: Inventory | None, edits: Sequence[Edit]) -> None:
    if edits and inventory is None:
        raise EditError(
            "the blueprint names no inventory to write this to", "name one with `inventory:`, or --inventory"
        )


def node_set_names(blueprint: Blueprint, inventory: Inventory | None) -> node_sets.KnownNames:
    """Return the names for node sets in a blueprint with valid nodes."""
    group_of = {name: key for key in blueprint.nodes for name in hostlist.expand(key)}
    pinned = {name: (at.rack, at.u) for name, at in inventory.positions.items()} if inventory else {}
    return set_names(blueprint.nodes, group_of, racks_of(blueprint.site), pinned)
