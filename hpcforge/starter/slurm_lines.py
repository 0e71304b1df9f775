"""What a draft has of Slurm: keys of nodes, partitions, settings, and where acceptance tests can run. Pure."""

from __future__ import annotations

from hpcforge.blueprint.edit import quoted
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.node_sets import EACH_PARTITION
from hpcforge.starter.machines import ALL, SiteFile, SiteMachine, SitePartition

_USUAL = 'main: {nodes: all, default: true, max_time: "2-00:00:00"}'


def slurm_words(site: SiteFile | None) -> dict[str, object]:
    """Return the words of the template that say how Slurm is: one partition of all nodes where a site has none.

    A test of all nodes is one job, which needs a partition of all of them; without one, each partition has a job.
    """
    partitions = site.partitions if site else ()
    has_all = not partitions or any(partition.nodes == ALL for partition in partitions)
    settings = dict(site.settings) if site else {}
    return {
        "partitions": [partition_line(partition) for partition in partitions] or [_USUAL],
        "settings": quoted(settings) if settings else "",
        "tested": "all" if has_all else EACH_PARTITION,
    }


def partition_line(partition: SitePartition) -> str:
    """Return the line of a partition, with a comment where a value is a guess."""
    nodes = "all" if partition.nodes == ALL else fold(partition.nodes)
    keys = [f"nodes: {quoted(nodes)}"]
    if partition.default:
        keys.append("default: true")
    if partition.max_time:
        keys.append(f"max_time: {quoted(partition.max_time)}")
    if partition.settings:
        keys.append(f"settings: {quoted(dict(partition.settings))}")
    guess = "default, max_time" if partition.default else "max_time"
    comment = "" if partition.max_time else f"   # guess: {guess}"
    return f"{quoted(partition.name)}: {{{', '.join(keys)}}}{comment}"


def node_keys(machine: SiteMachine) -> str:
    """Return the keys of a node that are Slurm's, to follow others."""
    keys = ""
    if machine.features:
        keys += f", features: {quoted(machine.features)}"
    if machine.weight is not None:
        keys += f", weight: {machine.weight}"
    return keys
