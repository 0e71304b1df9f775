"""What `slurm.settings` says that the cluster's release of Slurm would not take. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hpcforge.blueprint import schema as s
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.values import may_set
from hpcforge.catalog import Catalog
from hpcforge.catalog.distribution import Distribution

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
