"""Settings of Slurm that the cluster's release of it would not take, and topologies of nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from hpcforge.blueprint.diagnostics import closest, did_you_mean, quote
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.slurm import SlurmSection
from hpcforge.blueprint.sections.software import Software
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.values import may_set, may_set_of_partition
from hpcforge.catalog import Catalog
from hpcforge.catalog.distribution import Distribution
from hpcforge.catalog.slurm import Kind, SlurmRelease, expected, kind_of, preemption_mistake
from hpcforge.cluster.model import Cluster
from hpcforge.slurm.second_settings import second_setting_findings


@dataclass(frozen=True)
class _Settings:
    """Settings in a blueprint, and which of Slurm's may be there."""

    loc: Loc
    settings: Mapping[str, str]
    select: Callable[[SlurmRelease], Mapping[str, Kind]]
    may_set: Callable[[str], bool]
    label: str


def slurm_findings(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Yield settings or values that Slurm does not have, and settings that repeat another."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    places = [place for place in _all_settings(slurm) if place.settings] if slurm else []
    for place in places:
        yield from _twice(place)
    if slurm and draft.intact("slurm", "settings"):
        yield from _conflicts(slurm, qos_are_known=draft.intact("slurm", "qos"))
    software: Software | None = draft.sections["software"]
    if slurm and draft.intact("slurm") and draft.intact("services"):
        services = draft.sections["services"]
        accounting = services is not None and "accounting" in services.by_name()
        accounting = accounting or bool(slurm.accounts or slurm.qos)  # another check reports these without a service
        corrected = slurm.model_copy(
            update={"settings": {_corrected(name, catalog): value for name, value in slurm.settings.items()}}
        )
        own_roles = bool(draft.sections["role_folders"] or (software and software.site_roles))
        yield from second_setting_findings(corrected, accounting=accounting, own_roles=own_roles)
    if not places or not software or not draft.intact("software", "os"):
        return
    releases = {software.os.release, *(one.release for one in (draft.sections["overrides"] or {}).values())}
    for release in sorted(filter(None, releases)):
        if system := catalog.distributions.get((software.os.name, release)):
            for place in places:
                yield from _refused(place, system, catalog)


def _corrected(name: str, catalog: Catalog) -> str:
    """Return the setting that a misspelt name was probably meant to be, so that nothing follows from the mistake."""
    settings = {setting for release in catalog.slurm.values() for setting in release.settings}
    return name if name.lower() in map(str.lower, settings) else closest(name, sorted(settings)) or name


def _conflicts(slurm: SlurmSection, *, qos_are_known: bool) -> Iterator[Finding]:
    """Yield pairs of settings with which slurmctld does not start; one that is absent has its default."""
    settings = {name.lower(): (name, value.lower()) for name, value in slurm.settings.items()}
    loc = ("slurm", "settings")
    first, last = (_number(settings[key][1]) if key in settings else None for key in ("firstjobid", "maxjobid"))
    if last is not None and last < (1 if first is None else first):
        yield Finding((*loc, settings["maxjobid"][0]), "MaxJobId is below FirstJobId", "use a larger number")
    # hpcforge writes both settings then.
    by_qos = any(qos.preempt for qos in slurm.qos.values()) and "preempttype" not in settings
    kind = settings["preempttype"][1] if "preempttype" in settings else "preempt/qos" if by_qos else "preempt/none"
    mode = settings["preemptmode"][1] if "preemptmode" in settings else "requeue" if by_qos else "off"
    at = settings.get("preemptmode") or settings.get("preempttype")
    mistake = preemption_mistake(kind, mode) if at and qos_are_known else None
    if mistake and at:
        yield Finding((*loc, at[0]), *mistake)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _all_settings(slurm: SlurmSection) -> Iterator[_Settings]:
    yield _Settings(("slurm", "settings"), slurm.settings, lambda release: release.settings, may_set, "setting")
    for name, partition in slurm.partitions.items():
        loc = ("slurm", "partitions", name, "settings")
        select, may = (lambda release: release.partition_settings), may_set_of_partition
        yield _Settings(loc, partition.settings, select, may, "parameter of a partition")


def topology_findings(
    blueprint: Blueprint, cluster: Cluster, catalog: Catalog, pinned: Collection[str]
) -> Iterator[Finding]:
    """Yield topologies of partitions without a source, partitions that one cuts, and NVLink domains in unknown racks.

    `pinned` are the nodes whose racks the inventory has.
    """
    made = {"flat", *(topology.plugin for topology in cluster.slurm.topologies)}
    all_built = len(cluster.fabrics) == len(blueprint.fabrics)  # else a rule names the fabric that cannot be built
    for name, partition in blueprint.slurm.partitions.items() if all_built else ():
        if partition.topology and partition.topology not in made:
            message = f"the workers are on no InfiniBand, RoCE or Omni-Path fabric that gives a {partition.topology}"
            hint = "name their fabric in `slurm.topology.fabric`, or remove this"
            yield Finding(("slurm", "partitions", name, "topology"), message, hint)
    for used in cluster.slurm.partitions if all_built else ():
        parts = cluster.slurm.parts(used.nodes, used)
        if len(parts) > 1:
            message = f"{' and '.join(map(fold, parts))} are apart in the topology of Slurm: no job has nodes of two"
            hint = "a partition for each, or `plugin: flat` under `slurm.topology`"
            yield Finding(("slurm", "partitions", used.name, "nodes"), message, hint, severity="warning")
    unknown: dict[str, list[str]] = {}
    for node in cluster.workers:
        by_rack = catalog.servers[node.hardware].nvlink_domain == "rack"
        if by_rack and not blueprint.nodes[node.group].rack and node.name not in pinned:
            unknown.setdefault(node.group, []).append(node.name)
    for group, names in unknown.items():
        message = f"the nodes of a rack share an NVLink domain, and the rack of {fold(names)} is not set"
        yield Finding(("nodes", group, "hardware"), message, "add `rack` to the group, and the racks to `site.racks`")


def _refused(place: _Settings, system: Distribution, catalog: Catalog) -> Iterator[Finding]:
    """Yield settings that the Slurm of a release does not know, or not with that value."""
    release = catalog.slurm.get(system.slurm)
    if release is None:
        releases = f"those of {', '.join(catalog.slurm)} are"
        message = f"settings are not checked: the catalog has no settings of Slurm {system.slurm}"
        yield Finding(place.loc, message, releases, severity="warning", key=True)
        return
    settings = place.select(release)
    release_name = f"Slurm {system.slurm} of {system.name} {system.release}"
    for name, value in place.settings.items():
        kind = kind_of(settings, name)
        if kind is None:
            hint = did_you_mean(name, [name for name in settings if place.may_set(name)])
            yield Finding((*place.loc, name), f"{release_name} has no {place.label} {quote(name)}", hint, key=True)
        elif words := expected(name, kind, value):
            yield Finding(
                (*place.loc, name), f"{release_name} does not take {quote(value)} for {quote(name)}", f"use {words}"
            )


def _twice(place: _Settings) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for name in place.settings:
        before = first.setdefault(name.lower(), name)
        if before != name:
            message = f"{quote(name)} repeats {quote(before)}: Slurm ignores case in names"
            yield Finding((*place.loc, name), message, "remove one", key=True)
