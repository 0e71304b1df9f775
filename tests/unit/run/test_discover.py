"""Which addresses are asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cli.site import open_site
from hpcforge.errors import UsageError
from hpcforge.run.discover import MOST, addresses

ROOT = Path(__file__).parents[3]


def test_addresses_are_hostlists_and_subnets_or_the_nodes_own() -> None:
    site = open_site(ROOT / "blueprints" / "air-cooled-16.yaml", None, None, None, needs_lab=False)
    assert addresses(site, ["10.0.0.[1-2]", "10.0.0.2", "10.9.0.0/30"]) == (
        "10.0.0.1",
        "10.0.0.2",
        "10.9.0.1",
        "10.9.0.2",
    )
    own = addresses(site, [])
    assert own[:2] == ("10.51.0.10", "10.51.0.11")
    assert len(own) == len(site.cluster.nodes)
    with pytest.raises(UsageError, match=f"more than {MOST}"):
        addresses(site, ["10.0.0.0/19"])
