"""What a draft has of Slurm: keys of nodes, partitions, settings, and where acceptance tests can run. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hpcforge import bundled
from hpcforge.blueprint.acceptance_checks import asked_min
from hpcforge.blueprint.edit import quoted
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.node_sets import EACH_PARTITION
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from hpcforge.blueprint.values import limit_s, minutes
from hpcforge.starter.machines import ALL, SiteFile, SiteMachine, SitePartition

_USUAL = 'main: {nodes: all, default: true, max_time: "2-00:00:00"}'
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
_TESTS = ("memory_copy", "allreduce", "train_ddp")


def slurm_words(site: SiteFile | None) -> dict[str, object]:
    """Return the words of the template that say how Slurm is: one partition of all nodes where a site has none."""
    partitions = site.partitions if site else ()
    settings = dict(site.settings) if site else {}
    return {
        "partitions": [partition_line(partition) for partition in partitions] or [_USUAL],
        "settings": _settings(settings) if settings else "",
        **_tests(partitions),
    }


def _tests(partitions: Sequence[SitePartition]) -> dict[str, object]:
    """The lines of acceptance tests, and those that no partition has the time for, with the minutes that they need.

    A test of all nodes is one job, which needs a partition of all of them; without one, each partition has a job.
    """
    lines: list[str] = []
    too_long: dict[str, int] = {}
    for name in _TESTS:
        needed = _minutes(name) if any(partition.max_time for partition in partitions) else 0
        fitting = [each for each in partitions if limit_s(each.max_time or "infinite") >= needed * 60]
        nodes: str | list[str] = list(dict.fromkeys(fold(each.nodes) for each in fitting))
        if not partitions or any(each.nodes == ALL for each in fitting):
            nodes = "all"
        elif len(fitting) == len(partitions):
            nodes = EACH_PARTITION
        if nodes:
            lines.append(f"{name}: {{nodes: {quoted(nodes)}}}")
        else:
            too_long[name] = needed
    return {"tests": lines, "too_long": too_long}


def _minutes(test: str) -> int:
    """How long a job of a smoke test may take."""
    return asked_min(minutes(load_smoke_tests(bundled.smoke_tests())[test].spec.time_limit) * 60)


def partition_line(partition: SitePartition) -> str:
    """Return the line of a partition, with a comment where a value is a guess."""
    nodes = "all" if partition.nodes == ALL else fold(partition.nodes)
    keys = [f"nodes: {quoted(nodes)}"]
    if partition.default:
        keys.append("default: true")
    if partition.max_time:
        keys.append(f"max_time: {quoted(partition.max_time)}")
    if partition.settings:
        keys.append(f"settings: {_settings(dict(partition.settings))}")
    guess = "default, max_time" if partition.default else "max_time"
    comment = "" if partition.max_time else f"   # guess: {guess}"
    return f"{quoted(partition.name)}: {{{', '.join(keys)}}}{comment}"


def _settings(settings: Mapping[str, str]) -> str:
    """Return settings of slurm.conf on one line; a plain number is bare."""
    return quoted({key: int(value) if _NUMBER.fullmatch(value) else value for key, value in settings.items()})


def node_keys(machine: SiteMachine) -> str:
    """Return the keys of a node that are Slurm's, to follow others."""
    keys = ""
    if machine.features:
        keys += f", features: {quoted(machine.features)}"
    if machine.weight is not None:
        keys += f", weight: {machine.weight}"
    return keys
