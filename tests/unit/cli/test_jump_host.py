"""Which machine a site's nodes are reached through, and that a rehearsal needs no machine of the site's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Jump
from hpcforge.run.site import Site, jump_host

HEAD = Jump("head", "10.77.0.10", "ops", (), is_node=True)
GATE = Jump("gate.example.org", "gate.example.org", "jump", (), is_node=False)


@pytest.mark.parametrize(
    ("via", "lab", "expected"),
    [
        (None, None, None),
        (HEAD, None, "ops@10.77.0.10"),
        (HEAD, "mine", "ops@10.77.0.10"),
        (GATE, None, "jump@gate.example.org"),
        (GATE, "mine", None),
    ],
)
def test_the_way_to_the_nodes(via: Jump | None, lab: str | None, expected: str | None) -> None:
    loaded = load(bundled.root() / "blueprints" / "rehearsal.yaml")
    access = dataclasses.replace(loaded.cluster.access, via=via)
    site = Site(loaded, dataclasses.replace(loaded.cluster, access=access), Path("age.key"), lab)
    found = jump_host(site)
    assert (f"{found.user}@{found.address}" if found else None) == expected
