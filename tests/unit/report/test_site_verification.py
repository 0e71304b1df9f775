"""Where a report says that a cluster comes from."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.report.site_verification import gpu_models, missing, source
from hpcforge.run.site import Site
from hpcforge.run.verify import Usable, VerifyRequest
from hpcforge.slurm.down_nodes import DownWorker
from hpcforge.verify.verdict_records import Recorded

BLUEPRINT = bundled.root() / "blueprints" / "rehearsal.yaml"


def test_the_blueprint_is_named_by_its_digest() -> None:
    loaded = load(BLUEPRINT)
    site = Site(loaded, loaded.cluster, Path("/nonexistent"), "lab")
    found = source(site)
    assert found.blueprint == str(BLUEPRINT)
    assert found.blueprint_sha256 == hashlib.sha256(BLUEPRINT.read_bytes()).hexdigest()
    assert found.inventory is None  # of a rehearsal
    assert gpu_models(site)["h100-sxm"].nvlink_gb_per_s


def test_missing_are_the_unreachable_nodes_and_those_without_jobs_that_were_meant() -> None:
    """A node that an operator drained is left out, and not missing: the exit status does not count it."""
    out = {"w01": "unreachable: no route", "w02": "w02 is down", "w03": "drained: bad fan"}
    usable = Usable(out, Recorded(), down=(DownWorker("w02", "down"),))
    cluster = load(BLUEPRINT).cluster
    assert missing(cluster, usable, VerifyRequest()) == {"w01": "unreachable: no route", "w02": "w02 is down"}
    assert missing(cluster, usable, VerifyRequest(limit=["w02", "w03"])) == {"w02": "w02 is down"}
