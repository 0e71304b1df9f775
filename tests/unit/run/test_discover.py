"""Which addresses are asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cli.site import open_site
from hpcforge.errors import UsageError
from hpcforge.run.discover import MOST, search

ROOT = Path(__file__).parents[3]


def test_addresses_are_hostlists_and_subnets_or_the_nodes_own() -> None:
    site = open_site(ROOT / "blueprints" / "air-cooled-16.yaml", None, None, None, needs_lab=False)
    asked = search(site, ["10.0.0.[1-2]", "10.0.0.2", "10.9.0.0/30", "10.51.0.10/32"])
    assert asked.addresses == ("10.0.0.1", "10.0.0.2", "10.9.0.1", "10.9.0.2", "10.51.0.10")
    assert asked.named == {"10.0.0.1", "10.0.0.2", "10.51.0.10"}  # no others of a subnet get a password
    own = search(site, [])
    assert own.addresses[:2] == ("10.51.0.10", "10.51.0.11")
    assert len(own.addresses) == len(own.named) == len(site.cluster.nodes)
    with pytest.raises(UsageError, match=f"more than {MOST}"):
        search(site, ["10.0.0.0/19"])
