"""The topology of nodes for Slurm: topology.conf, and from Slurm 25.05 topology.yaml. Pure.

A level of the fabric (`levels`) is a level of Slurm switches. The rails of one scalable unit are one Slurm switch, for
each of its nodes is on all of its leaves, and Slurm's tree lets a node be below one switch only; so is a leaf pair.
Blocks are the lowest of these, and NVLink domains where nodes have one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from hpcforge.blueprint.sections.slurm import Plugin
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.switch_groups import Level, SwitchGroup, among, levels

Domains = Mapping[str, str]  # by node, the NVLink domain that it shares with others
_NO_DOMAINS: Domains = MappingProxyType({})
Shares = Sequence[tuple[Fabric, tuple[str, ...]]]  # fabrics, each with its workers


@dataclass(frozen=True)
class SlurmSwitch:
    """A Slurm switch: it has nodes or other switches below it."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """A Slurm block: nodes among which a job is kept."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Topology:
    """One topology as data; in topology.yaml its name is that of its plugin."""

    plugin: Plugin
    fabric: str | None  # the source of the topology; None: no fabric connects the nodes
    dragonfly: bool  # TopologyParam=dragonfly: jobs are spread over as many groups as they can use, or kept in one
    switches: tuple[SlurmSwitch, ...]  # of a tree, the lowest first
    blocks: tuple[Block, ...]  # of topology/block
    block_sizes: tuple[int, ...]  # nodes: the planning size, then twice, four times, ... as much

    @property
    def empty(self) -> bool:
        """Whether Slurm would refuse it: a tree without switches, or no block."""
        return self.plugin != "flat" and not self.switches and not self.blocks


def compute_fabric(fabrics: Iterable[Fabric], workers: Collection[str], name: str | None = None) -> Fabric | None:
    """Return the fabric that Slurm's topology describes: the one named, else the fastest of workers.

    Plain Ethernet counts only if it is named: it carries all other traffic, and shows little about which nodes are
    near.
    """
    if name is not None:
        return next((fabric for fabric in fabrics if fabric.name == name), None)
    worker_names = set(workers)
    fast = [
        fabric
        for fabric in fabrics
        if fabric.kind != "ethernet" and any(device.name in worker_names for device in fabric.devices)
    ]
    return max(fast, key=lambda fabric: fabric.rate_gbps * fabric.rails, default=None)


def further_fabrics(fabrics: Iterable[Fabric], first: Fabric | None) -> tuple[Fabric, ...]:
    """Return the fabrics beside the first, the fastest first, without plain Ethernet."""
    fast = [fabric for fabric in fabrics if fabric.kind != "ethernet" and fabric is not first]
    return tuple(sorted(fast, key=lambda fabric: -fabric.rate_gbps * fabric.rails)) if first else ()


def topologies(
    fabric: Fabric | None,
    workers: Collection[str],
    plugin: Plugin,
    others: Mapping[Plugin, Collection[str]],
    domains: Domains = _NO_DOMAINS,
    further: Sequence[Fabric] = (),
) -> tuple[Topology, ...]:
    """Return the topologies that can be made, the default one first; none where Slurm needs no file.

    The default has all workers. `others` has the workers for which another plugin is named: a topology beside the
    default has these alone, so that nodes outside do not make its blocks smaller. NVLink domains are blocks in any
    case, for an administrator to use.
    """
    possible = {"flat", *(("tree", "block") if fabric else ()), *(("block",) if domains else ())}
    first: Plugin = plugin if plugin in possible else "flat"
    additional = {name: nodes for name, nodes in others.items() if name in possible and name != first}
    if domains and first != "block":
        additional.setdefault("block", domains)
    if first == "flat" and not additional:
        return ()
    more = (shrunk(topology(fabric, workers, name, domains, further), nodes) for name, nodes in additional.items())
    return (topology(fabric, workers, first, domains, further), *more)


def topology(
    fabric: Fabric | None,
    workers: Collection[str],
    plugin: Plugin = "tree",
    domains: Domains = _NO_DOMAINS,
    further: Sequence[Fabric] = (),
) -> Topology:
    """Return one topology of these workers; a tree needs a fabric. `further` are fabrics of workers that it lacks.

    Workers without such a fabric are below a switch, or in a block, of their own. One switch is above it and the
    fabric: all nodes reach each other by IP. Nothing joins fabrics with RDMA that share no worker: no job has nodes of
    both, as the documentation of Slurm advises ("Topology Guide": separate networks).
    """
    if plugin == "flat" or (fabric is None and plugin == "tree"):
        return Topology("flat", None, False, (), (), ())
    shares = tuple(_shares(fabric, further, workers))
    name = fabric.name if fabric else None
    if plugin == "block" or fabric is None:
        blocks = tuple(_blocks(shares, workers, domains, name))
        return Topology("block", name, False, (), blocks, _block_sizes(blocks))
    switches = tuple(_forest(fabric.name, shares, workers))
    return Topology("tree", name, "dragonfly" in fabric.topology, switches, (), ())


def _shares(
    fabric: Fabric | None, further: Sequence[Fabric], workers: Collection[str]
) -> Iterator[tuple[Fabric, tuple[str, ...]]]:
    """Yield the fabrics, each with the workers that no earlier one has."""
    remaining = dict.fromkeys(workers)
    for candidate in (fabric, *further) if fabric else ():
        share = tuple(name for name in remaining if name in candidate.index)
        remaining = {name: None for name in remaining if name not in candidate.index}
        yield candidate, share


def shrunk(original: Topology, workers: Collection[str]) -> Topology:
    """Return the topology with these workers alone, without empty switches and blocks."""
    present, switches = frozenset(workers), list[SlurmSwitch]()
    for slurm_switch in original.switches:  # the lowest first
        below = {switch.name for switch in switches}
        nodes = tuple(name for name in slurm_switch.nodes if name in present)
        above = tuple(name for name in slurm_switch.switches if name in below)
        if nodes or above:
            switches.append(SlurmSwitch(slurm_switch.name, nodes, above))
    reduced = (Block(block.name, tuple(name for name in block.nodes if name in present)) for block in original.blocks)
    blocks = tuple(block for block in reduced if block.nodes)
    return replace(original, switches=tuple(switches), blocks=blocks, block_sizes=_block_sizes(blocks))


def parts(topology: Topology, nodes: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """Return these nodes in the parts that Slurm keeps apart; one part where a job of all of them can be placed.

    By eval_nodes_tree.c and eval_nodes_block.c of Slurm 24.11: the nodes of a job are below one switch, or in one row
    of as many blocks as the least sufficient BlockSizes; in any blocks if none suffices.
    """
    if topology.blocks:
        first, *_ = topology.block_sizes
        row = next((size // first for size in topology.block_sizes if size >= len(nodes)), len(topology.blocks))
        rows = (topology.blocks[at : at + row] for at in range(0, len(topology.blocks), row))
        sets = [frozenset(name for block in members for name in block.nodes) for members in rows]
    else:
        sets = [_below(topology, switch) for switch in tops(topology.switches)]
    shares = (tuple(name for name in nodes if name in members) for members in sets)
    return tuple(share for share in shares if share)


def _below(topology: Topology, switch: SlurmSwitch) -> frozenset[str]:
    by_name = {slurm_switch.name: slurm_switch for slurm_switch in topology.switches}
    pending, node_names = [switch], set[str]()
    while pending:
        slurm_switch = pending.pop()
        node_names.update(slurm_switch.nodes)
        pending += (by_name[name] for name in slurm_switch.switches)
    return frozenset(node_names)


def _elsewhere(shares: Shares, workers: Collection[str]) -> tuple[str, ...]:
    on = {name for _, share in shares for name in share}
    return tuple(name for name in workers if name not in on)


def _forest(name: str, shares: Shares, workers: Collection[str]) -> Iterator[SlurmSwitch]:
    """Yield the tree of each fabric, and a switch above those that share workers or have no fabric of their own."""
    joins: list[str] = []
    joined = _joined([{*workers}.intersection(fabric.index) for fabric, _ in shares])
    for fabric, share in shares:
        tree = tuple(_tree(fabric, levels(fabric), share)) if share else ()
        yield from tree
        if joined.intersection(share):
            joins += (top.name for top in tops(tree))
    if elsewhere := _elsewhere(shares, workers):
        yield SlurmSwitch(f"{name}-elsewhere", nodes=elsewhere)
        joins.append(f"{name}-elsewhere")
    if len(joins) > 1:
        yield SlurmSwitch(f"{name}-and-others", switches=tuple(joins))


def tops(switches: Sequence[SlurmSwitch]) -> tuple[SlurmSwitch, ...]:
    """Return the switches with none above them."""
    below = {name for switch in switches for name in switch.switches}
    return tuple(switch for switch in switches if switch.name not in below)


def _joined(sets: Sequence[Collection[str]]) -> set[str]:
    """Return the union of the first set and all sets connected to it by shared names."""
    joined = {*sets[0]}
    for _ in sets:  # each round joins at least one more set, or none is left
        for names in sets:
            if not joined.isdisjoint(names):
                joined |= {*names}
    return joined


def _tree(fabric: Fabric, fabric_levels: tuple[Level, ...], workers: Collection[str]) -> Iterable[SlurmSwitch]:
    below: dict[str, str] = {}  # node to the switch above it, by the levels so far
    for level in fabric_levels:
        shares = among(level, workers)
        if len(shares) == len(set(below.values())):
            continue  # joins none of the workers' switches
        above: dict[str, str] = {}
        for number, (group, nodes) in enumerate(shares, start=1):
            name = _name(fabric, level, group, number, alone=len(shares) == 1)
            above |= dict.fromkeys(nodes, name)
            if below:
                yield SlurmSwitch(name, switches=tuple(dict.fromkeys(below[node] for node in nodes)))
            else:
                yield SlurmSwitch(name, nodes=nodes)
        below = above


def _name(fabric: Fabric, level: Level, group: SwitchGroup, number: int, *, alone: bool) -> str:
    """Name a leaf by its own name, leaves that are one switch to Slurm by their unit, and upper levels by what joins
    them.
    """
    if level.by == "leaf" and len(group.switches) == 1:
        return fabric.devices[group.switches[0]].name
    kind = {"leaf": "unit", "group": "group"}.get(level.by, level.by if alone else f"{level.by}-group")
    return f"{fabric.name}-{kind}" if alone and level.by != "leaf" else f"{fabric.name}-{kind}-{number:03}"


def _blocks(shares: Shares, workers: Collection[str], domains: Domains, name: str | None) -> Iterator[Block]:
    """Yield NVLink domains, then the units of other workers on fabrics, then workers that are in neither."""
    inside: dict[str, list[str]] = {}
    for worker in workers:
        if worker in domains:
            inside.setdefault(domains[worker], []).append(worker)
    for domain, members in inside.items():
        yield Block(f"nvlink-{domain}", tuple(members))
    for fabric, share in shares:
        lowest = levels(fabric)[0]
        for number, (group, nodes) in enumerate(among(lowest, share), start=1):
            if remaining := tuple(node for node in nodes if node not in domains):
                yield Block(_name(fabric, lowest, group, number, alone=False), remaining)
    if elsewhere := tuple(node for node in _elsewhere(shares, workers) if node not in domains):
        yield Block(f"{name}-elsewhere" if name else "elsewhere", elsewhere)


def _block_sizes(blocks: Iterable[Block]) -> tuple[int, ...]:
    """Return the planning sizes, nodes: the smallest block times powers of two, up to the number of blocks.

    Slurm (topology.conf, BlockSizes) requires each of them to be the first times a power of two, and does not start if
    a block has fewer nodes than the first: "children count lower than bblock_node_cnt" (seen with 24.11).
    """
    counts = [len(block.nodes) for block in blocks]
    if not counts:
        return ()
    first = min(counts)
    return tuple(first << power for power in range(len(counts).bit_length()) if 1 << power <= len(counts))
