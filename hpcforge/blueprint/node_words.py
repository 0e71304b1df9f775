"""What names nodes in a blueprint: hostlists, and words for functions, groups and racks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import get_args

from hpcforge.blueprint import hostlist, node_sets
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.positions import Place, given_places
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.nodes import Function, NodeGroup
from hpcforge.blueprint.sections.site import SiteSection

_NO_PINS: Mapping[str, Place] = MappingProxyType({})
FUNCTIONS: tuple[Function, ...] = get_args(Function)


def known(
    groups: Mapping[str, NodeGroup],
    group_of: Mapping[str, str],
    racks: Iterable[str],
    pinned: Mapping[str, Place] = _NO_PINS,
) -> node_sets.KnownNames:
    """What may be named, of nodes by their group's key. Of racks the nodes are known if all were given a place."""
    members: dict[str, list[str]] = {}
    for name, key in group_of.items():
        members.setdefault(key, []).append(name)
    return node_sets.named(
        group_of,
        group_of,
        rack=_racks(groups, members, racks, pinned),
        function={
            each: tuple(
                name for key, group in groups.items() if each in group.functions for name in members.get(key, ())
            )
            for each in FUNCTIONS
        },
        group=node_sets.groups(members),
    )


def of_blueprint(blueprint: Blueprint, inventory: Inventory | None) -> node_sets.KnownNames:
    """What may be named in a blueprint whose nodes are right."""
    group_of = {name: key for key in blueprint.nodes for name in hostlist.expand(key)}
    pinned = {name: (at.rack, at.u) for name, at in inventory.positions.items()} if inventory else {}
    return known(blueprint.nodes, group_of, racks_of(blueprint.site), pinned)


def racks_of(site: SiteSection | None) -> tuple[str, ...]:
    """The names of racks."""
    return tuple(name for key in (site.racks if site else ()) for name in hostlist.expand(key))


def _racks(
    groups: Mapping[str, NodeGroup],
    members: Mapping[str, list[str]],
    racks: Iterable[str],
    pinned: Mapping[str, Place],
) -> Mapping[str, tuple[str, ...] | None]:
    """Nodes by rack; None where a position is proposed, since it follows from all others."""
    found: dict[str, list[str]] = {rack: [] for rack in racks}
    for key, group in groups.items():
        if group.rack is None or group.u is None:
            return dict.fromkeys(found)
        for name, (rack, _) in given_places(members.get(key, ()), group.rack, group.u, pinned).items():
            found.setdefault(rack, []).append(name)
    return {rack: tuple(names) for rack, names in found.items()}
