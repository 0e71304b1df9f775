"""Which network nodes boot on, and whose key they accept."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcforge.cli.site import open_site
from hpcforge.errors import UsageError
from hpcforge.run.netboot import _public_key, boot_network

ROOT = Path(__file__).parents[3]


def test_nodes_boot_on_the_network_that_says_so_or_their_own() -> None:
    site = open_site(ROOT / "blueprints" / "air-cooled-16.yaml", None, None, None, needs_lab=False)
    found = boot_network(site)
    assert found in site.cluster.networks
    assert found.boot or found == site.cluster.network


def test_a_public_key_is_read_from_either_file(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    assert _public_key(key) == _public_key(key.with_suffix(".pub"))
    assert _public_key(key).startswith("ssh-ed25519 ")
    key.write_text("no key")
    with pytest.raises(UsageError, match="cannot be read"):
        _public_key(key)
