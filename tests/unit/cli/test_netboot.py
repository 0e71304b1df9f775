"""`hpcforge netboot` up to where something is served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcforge.cli import netboot as verb
from hpcforge.errors import UsageError
from hpcforge.image.manifest import Disk, Lock, Manifest
from hpcforge.image.request import ImageRequest
from hpcforge.metal import serve as netboot
from hpcforge.metal.netboot import Records, folder
from hpcforge.metal.netboot.decide import Record, State
from hpcforge.tally import Tally
from tests.support.fake_bmc import FakeBmc, serving
from tests.support.in_process import hpcforge
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


def want(site: MetalSite, nodes: str, wipe: list[str], *, yes: bool) -> int:
    return verb.want(verb.NetbootWantOptions(blueprint=site.blueprint, nodes=nodes, wipe=wipe, hours=1.0, yes=yes))


def test_a_disk_with_data_needs_its_serial_and_the_names_typed(
    site: MetalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="needs a terminal"):
        want(site, "w1", ["w1=S1"], yes=False)
    for wrong in ("w1", "w1=", "head=S1", "w1=\x1b[2J"):
        with pytest.raises(UsageError, match="not NODE=SERIAL"):
            want(site, "w1", [wrong], yes=True)
    assert want(site, "w1", ["w1=S1"], yes=True) == 0
    record = Records(folder("metal")).read()["w1"]
    assert (record.state, record.wipe, record.image) == ("wanted", ("S1",), "img")


def test_a_node_without_a_mac_address_cannot_be_asked_for(site: MetalSite) -> None:
    with pytest.raises(UsageError, match="MAC address is not known: w2"):
        want(site, "all", [], yes=True)


def test_what_is_withdrawn_is_not_installed_and_host_keys_go_into_the_inventory(
    site: MetalSite, capsys: pytest.CaptureFixture[str]
) -> None:
    want(site, "w1", [], yes=True)
    verb.withdraw(verb.NetbootWithdrawOptions(blueprint=site.blueprint, nodes="w1"))
    assert "wanted, expired" in capsys.readouterr().out
    records = Records(folder("metal"))
    done = netboot.replace(records.read()["w1"], state="installed", host_keys=(HOST_KEY,))
    records.change("w1", lambda _: done)
    assert verb.record(verb.NetbootRecordOptions(blueprint=site.blueprint)) == 0
    assert HOST_KEY in site.inventory.read_text()
    verb.status(verb.NetbootStatusOptions(blueprint=site.blueprint, as_json=True))
    assert json.loads(capsys.readouterr().out)["nodes"][0]["state"] == "installed"


def test_installations_are_counted_by_their_records() -> None:
    def record(node: str, state: State, until_s: float = 100.0) -> Record:
        return Record(node, state, until_s, "img")

    tally, changes = Tally("installing nodes", ["w1", "w2"]), list[tuple[str, str]]()
    tally.watch(lambda part, state: changes.append((part, state)))
    old = record("w9", "installed")
    for states in (
        [record("w1", "begun"), record("w2", "offered"), record("w3", "wanted"), old],
        [record("w1", "installed"), record("w2", "begun"), record("w3", "wanted"), old],
        [record("w1", "installed"), record("w2", "failed"), record("w3", "wanted", 0.0), old],
    ):
        netboot.follow(tally, {record.node: record for record in states}, 50.0)
    netboot.follow(tally, {"w2": record("w2", "begun")}, 50.0)  # again
    assert changes == [
        ("w1", "begun"),
        ("w3", "added"),
        ("w2", "begun"),
        ("w1", "done"),
        *changes[4:6],
        ("w2", "begun"),
    ]
    assert {*changes[4:6]} == {("w2", "failed"), ("w3", "failed")}
    assert (tally.standing().done, tally.standing().total, tally.standing().longest) == (2, 3, "w2")


@pytest.mark.parametrize("verb", ["want", "withdraw", "serve", "status", "record"])
def test_each_verb_has_an_example(verb: str) -> None:
    done = hpcforge("netboot", verb, "--help")
    assert done.returncode == 0
    assert f"Example: hpcforge netboot {verb} site.yaml" in " ".join(done.stdout.split())
