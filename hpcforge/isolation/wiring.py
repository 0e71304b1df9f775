"""The leaves of nodes, and the uplink for traffic between two nodes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hpcforge.design.fabric.graph import CABLE_KINDS, Fabric

_STATIC = ("fat-tree", "rail-optimised")  # topologies whose routes are by destination; others route adaptively


@dataclass(frozen=True)
class NodeWiring:
    """The nodes of a test by number, and the leaves of their links. Without a fabric plan there is no leaf, and a link
    for each GPU, or one.

    Routes are assumed static: traffic to a node leaves each leaf by the uplink number (the node's place on its own
    leaf) mod (number of uplinks), as destination-mod-k routing of fat-trees does.
    """

    nodes: tuple[str, ...]
    rails: int = 1
    leaf: tuple[tuple[int, ...], ...] = ()  # of each node, by rail; (): no fabric plan
    place: tuple[tuple[int, ...], ...] = ()  # its place on that leaf
    uplinks: tuple[int, ...] = ()  # of each leaf; 0: none, or routes are not static

    @property
    def known(self) -> bool:
        """Whether there is a fabric plan."""
        return bool(self.leaf)

    @cached_property
    def unblocked(self) -> bool:
        """Whether each leaf has an uplink for each of its nodes, so that traffic across leaves is as fast as inside."""
        return all(self.uplinks[leaf] >= len(links) for leaf, links in self.on_leaf.items())

    def crosses(self, a: int, b: int, rail: int) -> bool:
        """Whether traffic between two nodes leaves its leaf."""
        return self.known and self.leaf[a][rail] != self.leaf[b][rail]

    def uplink(self, leaf: int, destination: int, rail: int) -> int | None:
        """Return the uplink of traffic to a node, up from a leaf or down to the node's own; None: not known."""
        count = self.uplinks[leaf]
        return self.place[destination][rail] % count if count else None

    @cached_property
    def units(self) -> tuple[tuple[int, ...], ...]:
        """The nodes that share the leaf of their first rail, by place; all nodes if no leaf is known."""
        if not self.known:
            return (tuple(range(len(self.nodes))),)
        units: dict[int, list[int]] = defaultdict(list)
        for node in range(len(self.nodes)):
            units[self.leaf[node][0]].append(node)
        return tuple(tuple(sorted(units[leaf], key=lambda node: self.place[node][0])) for leaf in sorted(units))

    @cached_property
    def unit_of(self) -> tuple[int, ...]:
        """The unit of each node."""
        unit_by_node = {node: number for number, unit in enumerate(self.units) for node in unit}
        return tuple(unit_by_node[node] for node in range(len(self.nodes)))

    @cached_property
    def by_place(self) -> Mapping[tuple[int, int], tuple[int, ...]]:
        """Nodes by rail and their place on their leaf."""
        nodes_by_place: dict[tuple[int, int], list[int]] = defaultdict(list)
        for node, places in enumerate(self.place):
            for rail, place in enumerate(places):
                nodes_by_place[rail, place].append(node)
        return {key: tuple(nodes) for key, nodes in nodes_by_place.items()}

    def reached_over(self, leaf: int, uplink: int, rail: int) -> tuple[int, ...]:
        """Return the nodes of other leaves that a leaf reaches over an uplink."""
        count = self.uplinks[leaf]
        places = range(uplink, self.most_places, count) if count else ()
        return tuple(
            node for place in places for node in self.by_place.get((rail, place), ()) if self.leaf[node][rail] != leaf
        )

    @cached_property
    def most_places(self) -> int:
        """The number of places on the leaf with most."""
        return 1 + max((place for places in self.place for place in places), default=-1)

    @cached_property
    def on_leaf(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """The nodes of each leaf, with the rail that connects them."""
        links_by_leaf: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for node, leaves in enumerate(self.leaf):
            for rail, leaf in enumerate(leaves):
                links_by_leaf[leaf].append((node, rail))
        return {leaf: tuple(links) for leaf, links in links_by_leaf.items()}


def wiring(names: Sequence[str], fabric: Fabric | None) -> NodeWiring:
    """Return the wiring of some nodes by a fabric plan; without one, or if a node has no link in it, just the nodes."""
    names = tuple(names)
    if fabric is None or not set(names) <= fabric.index.keys():
        return NodeWiring(names)
    cables, number_by_device = fabric.cables, {fabric.index[name]: number for number, name in enumerate(names)}
    first = next((index for index, device in enumerate(fabric.devices) if device.kind == "leaf"), 0)
    to_leaf, up = CABLE_KINDS.index("node_leaf"), CABLE_KINDS.index("leaf_spine")
    ends: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    uplinks = [0] * fabric.count("leaf")
    for a, a_port, b, b_port, kind in zip(cables.a, cables.a_port, cables.b, cables.b_port, cables.kind, strict=True):
        if kind == to_leaf and a in number_by_device:
            ends[number_by_device[a]][a_port - 1] = b - first, b_port - fabric.first_end_port
        elif kind == up and fabric.topology in _STATIC:
            uplinks[a - first] += 1
    if any(len(ends[number]) != fabric.rails for number in range(len(names))):
        return NodeWiring(names)
    links = [[ends[number][rail] for rail in range(fabric.rails)] for number in range(len(names))]
    return NodeWiring(
        names,
        fabric.rails,
        tuple(tuple(leaf for leaf, _ in node_links) for node_links in links),
        tuple(tuple(place for _, place in node_links) for node_links in links),
        tuple(uplinks),
    )
