"""The report of a verification, put together from the site, the request, and how it came out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from hpcforge.blueprint.sections.hardware import Gpu
from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.host.commit import commit_of
from hpcforge.report.verification import (
    SCHEMA_VERSION,
    Report,
    ReportedVerdict,
    Source,
    blamed_parts,
    node_identities,
    not_tested,
    reported_verdict,
)
from hpcforge.run.expectations import Expectations
from hpcforge.run.result import UNREACHABLE, Reached
from hpcforge.run.site import Site
from hpcforge.run.verify import Usable, Verification, VerifyRequest

_SHOWN = ("kernel", "driver", "firmware", "torch", "slurm", "hardware")  # of a fingerprint


def gpu_models(site: Site) -> Mapping[str, Gpu]:
    """Return the GPUs of the catalog and of the blueprint, by model."""
    return site.loaded.catalog.gpus


def verification_report(
    site: Site, usable: Usable, what: VerifyRequest, done: Verification, expected: Expectations
) -> Report:
    """All that the page, the JUnit file and the JSON are made from."""
    cluster = site.cluster
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    by_name = {test.name: test for test in tests}
    verdicts = [_reported(by_name[result.verdict.test], result, expected, usable) for result in done.tests.reached]
    earlier = [kept.last for kept in usable.recorded.kept]
    prints = [expected.fingerprint(by_name[result.verdict.test], result.verdict) for result in done.tests.reached]
    why = f"not among {', '.join(what.names)}" if what.names else f"beyond the level {what.level}"
    return Report(
        schema_version=SCHEMA_VERSION,
        cluster=cluster.name,
        source=source(site),
        hpcforge=done.run.hpcforge,
        who=done.run.who,
        began_s=round(done.began_s, 1),
        ended_s=round(done.ended_s, 1),
        level=what.level,
        verdicts=tuple(verdicts),
        left_out={**usable.out, **{node: f"in use: {job}" for node, job in done.busy.items()}},
        missing=missing(site.cluster, usable, what),
        fell_out=done.tests.fell_out,
        drained=done.drained,
        not_drained=done.not_drained,
        resumed=done.resumed,
        not_tested=not_tested(done.tests, tests, why),
        software={key: ", ".join(sorted({each[key] for each in prints} - {""})) for key in _SHOWN},
        baseline=expected.baseline.name if expected.baseline else None,
        history=usable.kept.runs[-20:],
        identities=node_identities(cluster.nodes, expected.facts, (*earlier, *verdicts), blamed_parts(verdicts)),
    )


def missing(cluster: Cluster, usable: Usable, what: VerifyRequest) -> dict[str, str]:
    """Return the nodes that a verification is for and that are unreachable or take no job, with the reasons."""
    down = {worker.node for worker in usable.down}
    out = {node: why for node, why in usable.out.items() if node in down or why.startswith(UNREACHABLE)}
    return {
        node: why for node, why in out.items() if what.limit is None or node in {*what.limit, cluster.slurm.controller}
    }


def _reported(test: SmokeTest, result: Reached, expected: Expectations, usable: Usable) -> ReportedVerdict:
    kept = usable.recorded.of(test)
    before = kept.last if kept and kept.last.passed else None
    return reported_verdict(test, result.verdict, expected.differs(test, result.verdict), before)


def source(site: Site) -> Source:
    """Return the files of a site by digest, and their commit."""
    loaded, inventory, commit = site.loaded, site.own_inventory, commit_of(*site.files)
    return Source(
        str(loaded.blueprint_path),
        _sha256(loaded.blueprint_path, *loaded.included),
        str(inventory) if inventory else None,
        _sha256(inventory) if inventory else None,
        commit.id if commit else None,
        commit.dirty if commit else False,
    )


def _sha256(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
