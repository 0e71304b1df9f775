"""Where a report says that a cluster comes from."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hpcforge import bundled
from hpcforge.cli.verification import gpu_models, source
from hpcforge.cluster import load
from hpcforge.run.site import Site

BLUEPRINT = bundled.root() / "blueprints" / "rehearsal.yaml"


def test_the_blueprint_is_named_by_its_digest() -> None:
    loaded = load(BLUEPRINT)
    site = Site(loaded, loaded.cluster, Path("/nonexistent"), "lab")
    found = source(site)
    assert found.blueprint == str(BLUEPRINT)
    assert found.blueprint_sha256 == hashlib.sha256(BLUEPRINT.read_bytes()).hexdigest()
    assert found.inventory is None  # of a rehearsal
    assert gpu_models(site)["h100-sxm"].nvlink_gb_per_s
