"""Which network nodes boot on, and whose key they accept."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.cli.site import open_site
from hpcforge.errors import UsageError
from hpcforge.metal.serve import boot_network, public_key, record_keys, records_of, want
from tests.support.fake_bmc import Serving
from tests.support.metal_site import metal_site

ROOT = Path(__file__).parents[3]
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJpoPS4bXRaMe6tTySXaOHYpzDJSvNFcFZLYYhJcYgBN"


def test_nodes_boot_on_the_network_that_says_so_or_their_own() -> None:
    site = open_site(ROOT / "blueprints" / "air-cooled-16.yaml", None, None, None, needs_lab=False)
    found = boot_network(site)
    assert found in site.cluster.networks
    assert found.boot or found == site.cluster.network


def test_apublic_key_is_read_from_either_file(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    assert public_key(key) == public_key(key.with_suffix(".pub"))
    assert public_key(key).startswith("ssh-ed25519 ")
    key.write_text("no key")
    with pytest.raises(UsageError, match="cannot be read"):
        public_key(key)


def test_host_keys_of_another_machine_with_the_name_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    there = metal_site(tmp_path, Serving(("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"), 443, "a" * 64))
    site = open_site(there.blueprint, None, None, None, needs_lab=False)
    want(site, ["w1", "w2"], {}, "img", 1.0)
    records = records_of(site)
    for name in ("w1", "w2"):
        records.change(name, lambda now: now and replace(now, state="installed", host_keys=(HOST_KEY,)))
    records.change("w2", lambda now: now and replace(now, mac="02:00:00:00:00:77"))  # of the machine before
    assert record_keys(site, ["head"]) == ()
    assert record_keys(site) == ("w1",)
    assert there.inventory.read_text().count(HOST_KEY) == 1
