"""`hpcforge netboot` up to where something is served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcforge.cli import netboot as verb
from hpcforge.errors import UsageError
from hpcforge.image.manifest import Disk, Lock, Manifest
from hpcforge.image.request import ImageRequest
from hpcforge.netboot import Records, folder
from hpcforge.run import netboot
from tests.support.fake_bmc import FakeBmc, serving
from tests.support.metal_site import MetalSite, metal_site

HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJpoPS4bXRaMe6tTySXaOHYpzDJSvNFcFZLYYhJcYgBN"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MetalSite:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    image = Manifest(
        "img", Lock(ImageRequest.__new__(ImageRequest), "", (), 0, (), ()), (), "", 0, 0.0, "", Disk("d" * 64, 1)
    )
    monkeypatch.setattr(netboot, "image_named", lambda _name: image)
    with serving(tmp_path, [FakeBmc(), FakeBmc(), FakeBmc()]) as at:
        return metal_site(tmp_path, at)


def test_a_disk_with_data_needs_its_serial_and_the_names_typed(
    site: MetalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="no terminal"):
        verb.want(site.blueprint, None, "w1", ["w1=S1"], None, 1.0, yes=False)
    for wrong in ("w1", "w1=", "head=S1", "w1=\x1b[2J"):
        with pytest.raises(UsageError, match="not NODE=SERIAL"):
            verb.want(site.blueprint, None, "w1", [wrong], None, 1.0, yes=True)
    assert verb.want(site.blueprint, None, "w1", ["w1=S1"], None, 1.0, yes=True) == 0
    record = Records(folder("metal")).read()["w1"]
    assert (record.state, record.wipe, record.image) == ("wanted", ("S1",), "img")


def test_a_node_without_a_mac_address_cannot_be_asked_for(site: MetalSite) -> None:
    with pytest.raises(UsageError, match="MAC address is not known: w2"):
        verb.want(site.blueprint, None, "all", (), None, 1.0, yes=True)


def test_what_is_withdrawn_is_not_installed_and_host_keys_go_into_the_inventory(
    site: MetalSite, capsys: pytest.CaptureFixture[str]
) -> None:
    verb.want(site.blueprint, None, "w1", (), None, 1.0, yes=True)
    verb.withdraw(site.blueprint, None, "w1")
    assert "wanted, expired" in capsys.readouterr().out
    records = Records(folder("metal"))
    done = netboot.replace(records.read()["w1"], state="installed", host_keys=(HOST_KEY,))
    records.change("w1", lambda _: done)
    assert verb.record(site.blueprint, None) == 0
    assert HOST_KEY in site.inventory.read_text()
    verb.status(site.blueprint, None, as_json=True)
    assert json.loads(capsys.readouterr().out)["nodes"][0]["state"] == "installed"
