"""Which addresses are asked."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpcforge.cli.site import open_site
from hpcforge.errors import UsageError
from hpcforge.metal import discover
from hpcforge.metal.discover import MOST, ask, search
from tests.support.fake_bmc import FakeBmc, serving
from tests.support.metal_site import metal_site

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


class Slow(FakeBmc):
    """It answers each request after a while."""

    def busy(self) -> bool:
        """Wait."""
        time.sleep(0.4)
        return False


def test_one_limit_has_the_probe_and_ends_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "MACHINE_S", 1.0)
    slow = Slow()
    with serving(tmp_path, [slow]) as at:
        site = open_site(
            metal_site(tmp_path, at, pinned=False).blueprint, None, None, tmp_path / "key", needs_lab=False
        )
        _, (silent,) = ask(site, search(site, ()), True, lambda _found: None)
    assert silent.why == "its answers take more than 1 s"
    assert len(slow.asked) < 4  # of the probe and of the machine together


def test_a_certificate_that_changes_is_not_compared_with_the_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, [FakeBmc()]) as at:
        site = open_site(
            metal_site(tmp_path, at, pinned=False).blueprint, None, None, tmp_path / "key", needs_lab=False
        )
        monkeypatch.setattr(discover, "certificate", lambda _access: "0" * 64)  # the one of its last connection
        _, (silent,) = ask(site, search(site, ()), True, lambda _found: None)
    assert silent.why.startswith("it shows a new certificate at each connection")
