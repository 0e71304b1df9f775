"""Nodes of several releases during an upgrade: which Slurms work together, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hpcforge.blueprint.diagnostics import closest_or_all, quote
from hpcforge.blueprint.sections.software import Software
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.catalog import Catalog
from hpcforge.cluster.model import Cluster, OperatingSystem

_OTHER_RUNTIMES = "take another runtime (docs/jobs.md), or a release that has it"
_ORDER = "upgrade slurmdbd first, then slurmctld, then workers and login nodes"


def unknown_releases(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Yield overrides with a release that the catalog does not have."""
    software: Software | None = draft.sections["software"]
    if software is None or not draft.intact("software", "os"):
        return
    releases = [release for name, release in catalog.distributions if name == software.os.name]
    for name, override in (draft.sections["overrides"] or {}).items():
        if override.release and releases and override.release not in releases:
            message = f"unknown release {quote(override.release)} of {software.os.name}"
            yield Finding(("overrides", name, "release"), message, closest_or_all(override.release, releases))


def release_findings(cluster: Cluster) -> Iterator[Finding]:
    """Yield container runtimes that a release lacks, and nodes whose Slurm does not work with the others."""
    yield from _lacking_runtimes(cluster)
    if len(cluster.slurm_versions) < 2:
        return
    own = cluster.os.release
    for name, reason in out_of_order(cluster).items():
        differs = cluster.os_of(name).release != own
        loc = ("overrides", name, "release") if differs else ("software", "os", "release")
        yield Finding(loc, f"{name} {reason}", _ORDER)


def _lacking_runtimes(cluster: Cluster) -> Iterator[Finding]:
    for runtime in cluster.container_runtimes:
        systems = {(system := cluster.os_of(node.name)).release: system for node in cluster.workers}
        for system in systems.values():
            if runtime in system.names.lacks:
                message = f"{system.name} {system.release} lacks {quote(runtime)}: {system.names.lacks[runtime]}"
                yield Finding(("software", "containers", "runtimes"), message, _OTHER_RUNTIMES)


def out_of_order(cluster: Cluster) -> dict[str, str]:
    """Return the nodes whose Slurm does not work with the controller's or slurmdbd's, with the reason.

    A daemon accepts messages of its own release and of some older ones, never of a newer one (upgrades.html of Slurm).
    """
    controller, databases = cluster.slurm.controller, cluster.services["accounting"].on
    reasons: dict[str, str] = {}
    for name in databases:
        if reason := _refused(cluster.os_of(controller), cluster.os_of(name), "slurmdbd"):
            reasons[controller] = reason
    for name in cluster.by_name:
        if name not in databases and (reason := _refused(cluster.os_of(name), cluster.os_of(controller), "slurmctld")):
            reasons[name] = reason
    return reasons


def _refused(client: OperatingSystem, server: OperatingSystem, daemon: str) -> str | None:
    """Return why a daemon does not work with a client, or None."""
    subject = f"would have Slurm {client.slurm} of {client.name} {client.release}"
    if client.slurm_version > server.slurm_version:
        return f"{subject}, newer than {daemon} {server.slurm}, which refuses it"
    if server.oldest_slurmd is None or client.slurm_version >= _number(server.oldest_slurmd):
        return None
    return f"{subject}, and {daemon} {server.slurm} works with {server.oldest_slurmd} and later"


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
