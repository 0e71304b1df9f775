"""What names nodes in a blueprint: hostlists, and words for functions, groups and racks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from hpcforge.blueprint import hostlist, node_sets
from hpcforge.blueprint import schema as s
from hpcforge.blueprint.site import SiteSection

FUNCTIONS: tuple[s.Function, ...] = get_args(s.Function)


def known(groups: Mapping[str, s.NodeGroup], group_of: Mapping[str, str], racks: Iterable[str]) -> node_sets.KnownNames:
    """What may be named, of nodes by their group's key. Of racks the nodes are known if all were given a place."""
    members: dict[str, list[str]] = {}
    for name, key in group_of.items():
        members.setdefault(key, []).append(name)
    return node_sets.named(
        group_of,
        group_of,
        rack=_racks(groups, members, racks),
        function={
            each: tuple(
                name for key, group in groups.items() if each in group.functions for name in members.get(key, ())
            )
            for each in FUNCTIONS
        },
        group=node_sets.groups(members),
    )


def of_blueprint(blueprint: s.Blueprint) -> node_sets.KnownNames:
    """What may be named in a blueprint whose nodes are right."""
    group_of = {name: key for key in blueprint.nodes for name in hostlist.expand(key)}
    return known(blueprint.nodes, group_of, racks_of(blueprint.site))


def racks_of(site: SiteSection | None) -> tuple[str, ...]:
    """The names of racks."""
    return tuple(name for key in (site.racks if site else ()) for name in hostlist.expand(key))


def _racks(
    groups: Mapping[str, s.NodeGroup], members: Mapping[str, list[str]], racks: Iterable[str]
) -> Mapping[str, tuple[str, ...] | None]:
    """Nodes by rack; None where a position is proposed, since it follows from all others."""
    found: dict[str, list[str]] = {rack: [] for rack in racks}
    for key, group in groups.items():
        if group.rack is None or group.u is None:
            return dict.fromkeys(found)
        places = [rack for rack in hostlist.expand(group.rack) for _ in group.u]
        for name, rack in zip(members.get(key, ()), places, strict=False):
            found.setdefault(rack, []).append(name)
    return {rack: tuple(names) for rack, names in found.items()}
