"""What Slurm is told of a fabric, so that the nodes of a job are near each other: topology.conf. Pure.

A level of the fabric (`levels`) is a level of Slurm switches. The rails of one scalable unit are one Slurm switch, for
each of its nodes is on all of its leaves, and Slurm's tree lets a node be below one switch only; so is a leaf pair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from hpcforge.fabric.graph import Fabric
from hpcforge.fabric.switch_groups import Level, SwitchGroup, among, levels

Plugin = Literal["tree", "block"]


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
    """topology.conf as data."""

    plugin: Plugin
    fabric: str
    dragonfly: bool  # TopologyParam=dragonfly: jobs are spread over as many groups as they can use, or kept in one
    switches: tuple[SlurmSwitch, ...]  # of a tree, the lowest first
    blocks: tuple[Block, ...]  # of topology/block
    block_sizes: tuple[int, ...]  # nodes: what is planned with, then twice, four times, ... as much


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


def topology(fabric: Fabric, workers: Collection[str], plugin: Plugin = "tree") -> Topology:
    """Return what Slurm is told: nodes that are no workers are none of Slurm's.

    Workers that are not on the fabric are below a switch, or in a block, of their own, to which nothing leads: no job
    has nodes on both sides.
    """
    found = levels(fabric)
    elsewhere = _elsewhere(found, workers)
    if plugin == "block":
        blocks = [*_blocks(fabric, found[0], workers)]
        if elsewhere:
            blocks.append(Block(f"{fabric.name}-elsewhere", elsewhere))
        return Topology("block", fabric.name, False, (), tuple(blocks), _block_sizes(blocks))
    switches = list(_tree(fabric, found, workers))
    if elsewhere:
        switches.append(SlurmSwitch(f"{fabric.name}-elsewhere", nodes=elsewhere))
    return Topology("tree", fabric.name, "dragonfly" in fabric.topology, tuple(switches), (), ())


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


def _blocks(fabric: Fabric, leaves: Level, workers: Collection[str]) -> Iterable[Block]:
    for number, (group, nodes) in enumerate(among(leaves, workers), start=1):
        yield Block(_name(fabric, leaves, group, number, alone=False), nodes)


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
