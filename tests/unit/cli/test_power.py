"""`hpcforge power` on a site with controllers of every kind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.fake_bmc import PASSWORD, SYSTEM, FakeBmc, serving
from tests.support.in_process import hpcforge
from tests.support.metal_site import metal_site


def test_status_names_each_node_and_what_is_wrong(tmp_path: Path) -> None:
    bmcs = [FakeBmc(on=True), FakeBmc(does=("refused-login",)), FakeBmc(), FakeBmc(does=("answers-nonsense",))]
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at)
        done = site.cli("power", "status", "BLUEPRINT", code=5)
        lines = done.stdout.splitlines()
        assert lines[1].split()[:3] == ["store", "on", "-"]
        assert "refuses user admin" in lines[2]
        assert "not JSON" in lines[4]
        assert "hpcforge secrets set" in done.stderr or "secrets set" in done.stderr
        found = json.loads(site.cli("power", "status", "BLUEPRINT", "w1", "--json").stdout)
        assert found["nodes"][0]["power"] == "off"
    assert PASSWORD not in done.stdout + done.stderr


def test_on_all_goes_from_storage_to_workers_and_off_the_other_way(tmp_path: Path) -> None:
    order: list[str] = []
    bmcs = [
        FakeBmc(serial=name, changed=lambda bmc: order.append(bmc.serial)) for name in ("store", "head", "w1", "w2")
    ]
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at)
        site.cli("power", "on", "BLUEPRINT", "--all", "--yes", "--pause", "0")
        assert order[:2] == ["store", "head"] and set(order[2:]) == {"w1", "w2"}
        order.clear()
        everything = ("--force", "store,head,w[1-2]", "--yes")
        site.cli("power", "off", "BLUEPRINT", "--all", *everything)
        assert set(order[:2]) == {"w1", "w2"} and order[2:] == ["head", "store"]


def test_off_all_stops_where_a_group_did_not_go_off(tmp_path: Path) -> None:
    bmcs = [FakeBmc(on=True), FakeBmc(on=True), FakeBmc(on=True), FakeBmc(on=True, shuts_down=False)]
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at)
        done = site.cli(
            "power", "off", "BLUEPRINT", "--all", "--wait", "1", "--force", "store,head,w[1-2]", "--yes", code=5
        )
        assert "w2: 127.77.0.4" in done.stderr or "w2: it is still on" in done.stderr
        assert "stopped: nodes after w[1-2] were not switched off" in done.stderr
    assert [bmc.on for bmc in bmcs] == [True, True, False, True]


def test_cycle_and_boot_once(tmp_path: Path) -> None:
    bmcs = [FakeBmc(), FakeBmc(), FakeBmc(on=True), FakeBmc(on=True, does=("once-becomes-continuous",))]
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at)
        done = site.cli("power", "boot-once", "BLUEPRINT", "w[1-2]")
        rows = {line.split()[0]: line for line in done.stdout.splitlines()}
        assert "network once" in rows["w1"]
        assert "network always" in rows["w2"] and "--device none" in rows["w2"]
        assert "power cycle" in done.stderr
        site.cli("power", "cycle", "BLUEPRINT", "w[1-2]", "--force", "w[1-2]", "--yes", "--hard", "--pause", "0")
        assert [bmc.resets for bmc in bmcs[2:]] == [["ForceOff", "On"]] * 2
        assert bmcs[2].target == "None"  # the one boot is over


def test_what_is_missing_is_said_before_anything_is_done(tmp_path: Path) -> None:
    with serving(tmp_path, [FakeBmc()]) as at:
        site = metal_site(tmp_path, at)
        done = site.cli("power", "on", "BLUEPRINT", "--all", "--yes", code=3)
        assert "address of the management controller is not known: head,w[1-2]" in done.stderr
        assert "no nodes are named" in site.cli("power", "on", "BLUEPRINT", "--yes", code=3).stderr
        assert "is not a node" in site.cli("power", "off", "BLUEPRINT", "store", "--force", "storage", code=3).stderr
        assert "add --yes" in site.cli("power", "on", "BLUEPRINT", "store", code=3).stderr
        (tmp_path / "metal.age").unlink()
        done = site.cli("power", "status", "BLUEPRINT", "store", code=3)
        assert "password of the management controller is not set: store" in done.stderr


def test_a_wrong_line_of_own_passwords_sends_the_common_one_nowhere(tmp_path: Path) -> None:
    bmcs = [FakeBmc() for _ in range(4)]
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at, own=f"w1 {PASSWORD}\nw2\ts3cret\n")
        done = site.cli("power", "status", "BLUEPRINT", "w[1-2]", code=1)
        assert "bmc_passwords: line 2: a tab" in done.stderr
        assert "s3cret" not in done.stderr
        assert all(bmc.asked == [] for bmc in bmcs)
        site = metal_site(tmp_path, at, own=f"w1 {PASSWORD}\nw2 s3cret\n")
        assert "it refuses user admin" in site.cli("power", "status", "BLUEPRINT", "w[1-2]", code=5).stdout
        assert len(bmcs[3].logins) == 1


def test_a_certificate_that_is_not_recorded_is_refused(tmp_path: Path) -> None:
    fake = FakeBmc()
    with serving(tmp_path, [fake]) as at:
        site = metal_site(tmp_path, at, pinned=False)
        done = site.cli("power", "status", "BLUEPRINT", "store", code=5)
        assert "certificate is not recorded" in done.stdout
        assert "discover" in done.stderr and "--trust-new" in done.stderr
    assert fake.asked == []


def test_a_controller_of_odd_types_is_no_success(tmp_path: Path) -> None:
    bmcs = [FakeBmc() for _ in range(4)]
    odd = dict.fromkeys(bmcs[0].system(), 7)
    bmcs[2].resources[SYSTEM], bmcs[3].resources[SYSTEM] = odd, {**bmcs[3].system(), "PowerState": ["On"]}
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at)
        assert "unknown" not in site.cli("power", "status", "BLUEPRINT", "store,head").stdout
        done = site.cli("power", "status", "BLUEPRINT", "w[1-2]", code=5)
        assert done.stdout.count("it reports no power state of Redfish or IPMI") == 2


def test_status_shows_the_others_where_an_address_is_not_known(tmp_path: Path) -> None:
    with serving(tmp_path, [FakeBmc(on=True)]) as at:
        site = metal_site(tmp_path, at)
        done = site.cli("power", "status", "BLUEPRINT", code=5)
        rows = {line.split()[0]: line for line in done.stdout.splitlines()}
        assert rows["store"].split()[1] == "on"
        for name in ("head", "w1", "w2"):
            assert "the address of its management controller is not known" in rows[name]
        assert "hint: in the inventory: `head: {bmc: {address: " in done.stderr
        assert "is not known: w[1-2]" in site.cli("power", "status", "BLUEPRINT", "w[1-2]", code=3).stderr


def test_ctrl_c_ends_a_status_at_once_and_shows_the_others(tmp_path: Path) -> None:
    release = threading.Event()
    bmcs = [FakeBmc(on=True), FakeBmc(does=("holds",), release=release)]
    try:
        with serving(tmp_path, bmcs) as at:
            site = metal_site(tmp_path, at)
            words = ["power", "status", str(site.blueprint), "store,head", "--identity", str(tmp_path / "key")]
            child = subprocess.Popen(
                [sys.executable, "-m", "hpcforge", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            until = time.monotonic() + 60
            while not bmcs[1].asked:
                assert time.monotonic() < until
                time.sleep(0.02)
            child.send_signal(signal.SIGINT)
            shown, said = child.communicate(timeout=20)  # the other holds its answer for longer
            release.set()
    finally:
        release.set()
    assert child.returncode == 130
    assert "interrupted" in next(line for line in shown.splitlines() if line.startswith("head"))
    assert "interrupted: not known: " in said


@pytest.mark.parametrize("verb", ["status", "on", "off", "cycle", "boot-once"])
def test_each_verb_has_an_example(verb: str) -> None:
    done = hpcforge("power", verb, "--help")
    assert done.returncode == 0
    assert f"Example: hpcforge power {verb} site.yaml" in " ".join(done.stdout.split())
    assert ("--force" in done.stdout) == (verb in ("off", "cycle"))
