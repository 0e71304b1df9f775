"""Which nodes are near each other, for Slurm: topology.conf, and from Slurm 25.05 topology.yaml. Pure.

A level of the fabric (`levels`) is a level of Slurm switches. The rails of one scalable unit are one Slurm switch, for
each of its nodes is on all of its leaves, and Slurm's tree lets a node be below one switch only; so is a leaf pair.
Blocks are the lowest of these, and NVLink domains where nodes have one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from hpcforge.blueprint.schema import Plugin
from hpcforge.fabric.graph import Fabric
from hpcforge.fabric.switch_groups import Level, SwitchGroup, among, levels

Domains = Mapping[str, str]  # by node, the NVLink domain that it shares with others
_NO_DOMAINS: Domains = MappingProxyType({})


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
    fabric: str | None  # that it was made from; None: none is between the nodes
    dragonfly: bool  # TopologyParam=dragonfly: jobs are spread over as many groups as they can use, or kept in one
    switches: tuple[SlurmSwitch, ...]  # of a tree, the lowest first
    blocks: tuple[Block, ...]  # of topology/block
    block_sizes: tuple[int, ...]  # nodes: what is planned with, then twice, four times, ... as much

    @property
    def empty(self) -> bool:
        """Whether Slurm would refuse it: a tree without switches, or no block."""
        return self.plugin != "flat" and not self.switches and not self.blocks


def compute_fabric(fabrics: Iterable[Fabric], workers: Collection[str], name: str | None = None) -> Fabric | None:
    """The fabric that Slurm is told of: the one of that name; else the one on which workers are fastest.

    Plain Ethernet counts only if it is named: it carries everything else, and says little of who is near whom.
    """
    if name is not None:
        return next((fabric for fabric in fabrics if fabric.name == name), None)
    wanted = set(workers)
    fast = [
        fabric
        for fabric in fabrics
        if fabric.kind != "ethernet" and any(device.name in wanted for device in fabric.devices)
    ]
    return max(fast, key=lambda fabric: fabric.rate_gbps * fabric.rails, default=None)


def topologies(
    fabric: Fabric | None,
    workers: Collection[str],
    plugin: Plugin,
    others: Mapping[Plugin, Collection[str]],
    domains: Domains = _NO_DOMAINS,
) -> tuple[Topology, ...]:
    """Return the topologies that can be made, the default one first; none where Slurm needs no file.

    The default has all workers. `others` has the workers for which another plugin is named: a topology beside the
    default has these alone, so that nodes outside do not make its blocks smaller. NVLink domains are blocks in any
    case, for an administrator to use.
    """
    possible = {"flat", *(("tree", "block") if fabric else ()), *(("block",) if domains else ())}
    first: Plugin = plugin if plugin in possible else "flat"
    beside = {name: nodes for name, nodes in others.items() if name in possible and name != first}
    if domains and first != "block":
        beside.setdefault("block", domains)
    if first == "flat" and not beside:
        return ()
    more = (shrunk(topology(fabric, workers, name, domains), nodes) for name, nodes in beside.items())
    return (topology(fabric, workers, first, domains), *more)


def topology(
    fabric: Fabric | None, workers: Collection[str], plugin: Plugin = "tree", domains: Domains = _NO_DOMAINS
) -> Topology:
    """Return one topology of these workers; a tree needs a fabric.

    Workers that are not on the fabric are below a switch, or in a block, of their own, to which nothing leads: no job
    has nodes on both sides.
    """
    found, name = (levels(fabric), fabric.name) if fabric else ((), None)
    if plugin == "block":
        blocks = tuple(_blocks(fabric, found, workers, domains))
        return Topology("block", name, False, (), blocks, _block_sizes(blocks))
    if plugin == "flat" or fabric is None:
        return Topology("flat", None, False, (), (), ())
    switches = list(_tree(fabric, found, workers))
    elsewhere = _elsewhere(found, workers)
    if elsewhere:
        switches.append(SlurmSwitch(f"{fabric.name}-elsewhere", nodes=elsewhere))
    return Topology("tree", name, "dragonfly" in fabric.topology, tuple(switches), (), ())


def shrunk(whole: Topology, workers: Collection[str]) -> Topology:
    """Return what is left of it with these workers alone; switches and blocks without any are left out."""
    there, switches = frozenset(workers), list[SlurmSwitch]()
    for slurm_switch in whole.switches:  # the lowest first
        below = {switch.name for switch in switches}
        nodes = tuple(name for name in slurm_switch.nodes if name in there)
        above = tuple(name for name in slurm_switch.switches if name in below)
        if nodes or above:
            switches.append(SlurmSwitch(slurm_switch.name, nodes, above))
    kept = (Block(block.name, tuple(name for name in block.nodes if name in there)) for block in whole.blocks)
    blocks = tuple(block for block in kept if block.nodes)
    return replace(whole, switches=tuple(switches), blocks=blocks, block_sizes=_block_sizes(blocks))


def _elsewhere(found: Iterable[Level], workers: Collection[str]) -> tuple[str, ...]:
    on = {name for level in found for group in level.groups for name in group.nodes}
    return tuple(name for name in workers if name not in on)


def _tree(fabric: Fabric, found: tuple[Level, ...], workers: Collection[str]) -> Iterable[SlurmSwitch]:
    below: dict[str, str] = {}  # node to the switch that it is below, as far as the levels have come
    for level in found:
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
    """A leaf by its own name; leaves that are one switch to Slurm by their unit; what is above by what joins it."""
    if level.by == "leaf" and len(group.switches) == 1:
        return fabric.devices[group.switches[0]].name
    kind = {"leaf": "unit", "group": "group"}.get(level.by, level.by if alone else f"{level.by}-group")
    return f"{fabric.name}-{kind}" if alone and level.by != "leaf" else f"{fabric.name}-{kind}-{number:03}"


def _blocks(
    fabric: Fabric | None, found: tuple[Level, ...], workers: Collection[str], domains: Domains
) -> Iterable[Block]:
    """Yield NVLink domains, then the fabric's units of other workers, then workers that are in neither."""
    inside: dict[str, list[str]] = {}
    for worker in workers:
        if worker in domains:
            inside.setdefault(domains[worker], []).append(worker)
    for domain, members in inside.items():
        yield Block(f"nvlink-{domain}", tuple(members))
    if fabric:
        for number, (group, nodes) in enumerate(among(found[0], workers), start=1):
            if left := tuple(node for node in nodes if node not in domains):
                yield Block(_name(fabric, found[0], group, number, alone=False), left)
    if elsewhere := tuple(node for node in _elsewhere(found, workers) if node not in domains):
        yield Block(f"{fabric.name}-elsewhere" if fabric else "elsewhere", elsewhere)


def _block_sizes(blocks: Iterable[Block]) -> tuple[int, ...]:
    """Sizes to plan with, nodes: the smallest block, and that times powers of two up to the number of blocks.

    Slurm (topology.conf, BlockSizes) wants each of them to be the first times a power of two, and does not start where
    a block has fewer nodes than the first: "children count lower than bblock_node_cnt" (seen with 24.11).
    """
    counts = [len(block.nodes) for block in blocks]
    if not counts:
        return ()
    first = min(counts)
    return tuple(first << power for power in range(len(counts).bit_length()) if 1 << power <= len(counts))
