"""What `slurm.settings` says that the cluster's release of Slurm would not take, and topologies of nothing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hpcforge.blueprint import schema as s
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.values import may_set
from hpcforge.catalog import Catalog
from hpcforge.catalog.distribution import Distribution
from hpcforge.cluster.model import Cluster

_LOC = ("slurm", "settings")


def slurm_findings(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Yield settings that Slurm does not know, and those that stand there twice: it does not heed their case."""
    slurm: s.SlurmSection | None = draft.sections["slurm"]
    if slurm is None:
        return
    yield from _twice(slurm)
    software: s.Software | None = draft.sections["software"]
    if not slurm.settings or not software or not draft.intact("software", "os"):
        return
    releases = {software.os.release, *(one.release for one in (draft.sections["overrides"] or {}).values())}
    for found in sorted(filter(None, releases)):
        if system := catalog.distributions.get((software.os.name, found)):
            yield from _unknown(slurm, system, catalog)


def topology_findings(
    blueprint: s.Blueprint, cluster: Cluster, catalog: Catalog, pinned: Collection[str]
) -> Iterator[Finding]:
    """Yield topologies of partitions that nothing gives, and NVLink domains whose racks are not known.

    `pinned` are the nodes whose racks the inventory has.
    """
    made = {"flat", *(topology.plugin for topology in cluster.slurm.topologies)}
    all_built = len(cluster.fabrics) == len(blueprint.fabrics)  # else a rule says which one cannot be
    for name, partition in blueprint.slurm.partitions.items() if all_built else ():
        if partition.topology and partition.topology not in made:
            message = f"the workers are on no InfiniBand, RoCE or Omni-Path fabric that gives a {partition.topology}"
            hint = "name their fabric in `slurm.topology.fabric`, or remove this"
            yield Finding(("slurm", "partitions", name, "topology"), message, hint)
    unknown: dict[str, list[str]] = {}
    for node in cluster.workers:
        by_rack = catalog.servers[node.hardware].nvlink_domain == "rack"
        if by_rack and not blueprint.nodes[node.group].rack and node.name not in pinned:
            unknown.setdefault(node.group, []).append(node.name)
    for group, names in unknown.items():
        message = f"the nodes of a rack share an NVLink domain, and the rack of {fold(names)} is not set"
        yield Finding(("nodes", group, "hardware"), message, "add `rack` to the group, and the racks to `site.racks`")


def _unknown(slurm: s.SlurmSection, system: Distribution, catalog: Catalog) -> Iterator[Finding]:
    """Yield settings that the Slurm of a release does not know."""
    release = catalog.slurm.get(system.slurm)
    if release is None:
        known = f"those of {', '.join(catalog.slurm)} are"
        message = f"the names are not checked: the catalog has no settings of Slurm {system.slurm}"
        yield Finding(_LOC, message, known, severity="warning", key=True)
        return
    choice = [name for name in release.settings if may_set(name)]
    for name in slurm.settings:
        if not release.knows(name):
            message = f"Slurm {system.slurm} of {system.name} {system.release} has no setting {quote(name)}"
            yield Finding((*_LOC, name), message, did_you_mean(name, choice), key=True)


def _twice(slurm: s.SlurmSection) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for name in slurm.settings:
        before = first.setdefault(name.lower(), name)
        if before != name:
            message = f"{quote(name)} repeats {quote(before)}: Slurm ignores case in names"
            yield Finding((*_LOC, name), message, "remove one of them", key=True)
