"""`hpcforge discover`: from controllers into the inventory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from hpcforge.metal import discover
from tests.support.fake_bmc import PASSWORD, SYSTEM, FakeBmc, Reply, serving
from tests.support.in_process import hpcforge
from tests.support.metal_site import metal_site


def machine(number: int, **other: object) -> FakeBmc:
    return FakeBmc(f"SN{number}", (f"02:00:00:00:00:0{number}",), gpus=8, **other)  # type: ignore[arg-type]


def test_an_empty_inventory_is_filled_and_the_rest_of_it_stays(tmp_path: Path) -> None:
    bmcs = [machine(1), machine(2), machine(3), machine(4, does=("answers-too-deep",))]
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at, known=False)
        asked = f"127.77.0.[1-{len(bmcs)}]"
        done = site.cli("discover", "BLUEPRINT", asked, code=5)
        assert "certificate is not recorded" in done.stderr and "--trust-new" in done.stderr
        assert all(bmc.asked == [] for bmc in bmcs)
        before = site.inventory.read_text()
        site.cli("discover", "BLUEPRINT", asked, "--trust-new", "--assign", "all", "--dry-run", code=5)
        assert site.inventory.read_text() == before
        done = site.cli("discover", "BLUEPRINT", asked, "--trust-new", "--assign", "all", code=5)
        assert "127.77.0.4: no management controller by Redfish: the answer is not JSON" in done.stderr
        assert "3 machines belong to no node, but --assign has 4 free nodes: no node is assigned" in done.stderr
        assert site.inventory.read_text() == before  # one silent machine moves no other
        site.cli("discover", "BLUEPRINT", "127.77.0.[1-3]", "--trust-new", "--assign", "all!w2")
        said = site.inventory.read_text()
        assert said.startswith("# ours\n")
        nodes = yaml.safe_load(said)["nodes"]
        assert nodes["head"] == {
            "serial": "SN2",
            "mac": "02:00:00:00:00:02",
            "bmc": {"address": "127.77.0.2", "certificate": at.certificate},
        }
        assert set(nodes) == {"store", "head", "w1"}
        assert "unchanged" in site.cli("discover", "BLUEPRINT").stderr
    assert PASSWORD not in done.stdout + done.stderr + said


def test_what_differs_from_the_blueprint_is_listed(tmp_path: Path) -> None:
    bmcs = [machine(1), machine(2), machine(3, memory_gib=32), FakeBmc("OTHER", ("02:00:00:00:00:04",), gpus=7)]
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at)
        done = site.cli("discover", "BLUEPRINT", code=7)
        assert "w1: 32 GiB of memory, declared 64" in done.stderr
        assert "blueprint: overrides: {w1: {memory_gib: 32, reason: WHY}}" in done.stderr
        assert "w2: serial number OTHER, and the inventory has SN4" in done.stderr
        assert "w2: 7 GPUs, declared 8" in done.stderr
        done = site.cli("discover", "BLUEPRINT", "--json", code=7)
        events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        counted = [event for event in events if event["event"] == "progress"]
        assert (counted[0]["done"], counted[-1]["done"], counted[-1]["total"]) == (0, 4, 4)
        assert (events[-1]["event"], events[-1]["exit"]) == ("result", 7)
        found = json.loads(done.stdout)
        assert [entry["node"] for entry in found["machines"]] == ["store", "head", "w1", "w2"]
        assert found["machines"][3]["by"] == "mac"
        assert found["written"] is False


def test_a_searched_subnet_gets_no_password(tmp_path: Path) -> None:
    bmcs = [machine(1), machine(2), machine(3), FakeBmc(does=("no-service-root",))]
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at, known=False)
        before = site.inventory.read_text()
        done = site.cli("discover", "BLUEPRINT", "127.77.0.0/29", "--trust-new", "--assign", "all!w2", code=5)
        assert [bmc.logins for bmc in bmcs] == [[], [], [], []]
        assert site.inventory.read_text() == before
        assert "127.77.0.2: a controller (hpcforge tests) that no node has: no password was sent" in done.stderr
        assert at.certificate in done.stderr
        assert "127.77.0.4: no management controller by Redfish: HTTP 404" in done.stderr
        again = f"discover {site.blueprint} '127.77.0.[1-3]' --assign 'all!w2' --trust-new"
        assert again in done.stderr
        site.cli("discover", "BLUEPRINT", "127.77.0.[1-3]", "--trust-new", "--assign", "all!w2")
        assert all(bmc.logins for bmc in bmcs[:3])
        site.cli("discover", "BLUEPRINT", "127.77.0.0/29")  # of a subnet, too, nodes get theirs
        assert bmcs[3].logins == []


def test_what_gives_no_service_root_gets_no_password(tmp_path: Path) -> None:
    printer = FakeBmc(does=("no-service-root",))
    with serving(tmp_path, [printer]) as at:
        site = metal_site(tmp_path, at, known=False)
        done = site.cli("discover", "BLUEPRINT", at.addresses[0], "--trust-new", code=5)
        assert "no management controller by Redfish" in done.stderr
        site.inventory.write_text(site.inventory.read_text().replace("port:", "tls: unverified\n  port:"))
        site.cli("discover", "BLUEPRINT", at.addresses[0], code=5)
    assert printer.asked == ["GET /redfish/v1/"] * 2
    assert printer.logins == []


def test_a_silent_address_that_was_named_is_unreachable(tmp_path: Path) -> None:
    with serving(tmp_path, [machine(1)]) as at:
        site = metal_site(tmp_path, at, known=False)
    assert "no connection" in site.cli("discover", "BLUEPRINT", "127.77.0.1", code=4).stderr
    assert "no connection" in site.cli("discover", "BLUEPRINT", "127.77.0.0/30").stderr


def test_wrong_addresses_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, [machine(1)]) as at:
        site = metal_site(tmp_path, at, known=False)
        for given, why in (
            ("10.0.0.0/8", "more than 4096"),
            ("nowhere", "neither IPv4"),
            ("10.0.0.[1-9999]", "neither"),
        ):
            assert why in site.cli("discover", "BLUEPRINT", given, code=3).stderr
        assert "no address of a management controller" in site.cli("discover", "BLUEPRINT", code=3).stderr


def test_an_assigned_node_that_went_meanwhile_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, [machine(1), machine(2), machine(3)]) as at:
        site = metal_site(tmp_path, at, known=False)
        monkeypatch.setattr(discover, "record", lambda *_: {})  # as another run left nothing to add
        done = site.cli("discover", "BLUEPRINT", "127.77.0.[1-3]", "--trust-new", "--assign", "all!w2", code=6)
    assert "store,head,w1: not assigned" in done.stderr or "head,store,w1: not assigned" in done.stderr


def test_a_search_that_finds_no_controller_names_no_next_step(tmp_path: Path) -> None:
    with serving(tmp_path, [FakeBmc(does=("no-service-root",))]) as at:
        site = metal_site(tmp_path, at, known=False)
        assert "Next:" not in site.cli("discover", "BLUEPRINT", "127.77.0.0/30").stderr


def test_a_controller_of_no_server_is_named_and_never_assigned(tmp_path: Path) -> None:
    bmcs = [machine(1), machine(2, on=True), machine(3), machine(4)]
    none = {"MemorySummary": {"TotalSystemMemoryGiB": 0}, "ProcessorSummary": {"Count": 0}, "Model": "BlueField-3"}
    bmcs[1].resources[SYSTEM] = {**bmcs[1].system(), **none, "Processors": None}
    bmcs[3].resources[SYSTEM] = {**bmcs[3].system(), "MemorySummary": {"TotalSystemMemoryGiB": 0}, "Memory": None}
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at, known=False)
        done = site.cli("discover", "BLUEPRINT", "127.77.0.[1-4]", "--trust-new", "--assign", "all!w2")
        assert "127.77.0.2: a DPU, no server (hpcforge tests BlueField-3): no node's" in done.stderr
        assert "127.77.0.4: memory: not told while it is off" in done.stderr
        assert "memory_gib: 0" not in done.stderr
        nodes = yaml.safe_load(site.inventory.read_text())["nodes"]
        assert [nodes[name]["bmc"]["address"] for name in ("store", "head", "w1")] == [
            "127.77.0.1",
            "127.77.0.3",
            "127.77.0.4",
        ]
        found = json.loads(site.cli("discover", "BLUEPRINT", "127.77.0.2", "--trust-new", "--json").stdout)["machines"][
            0
        ]
        assert (found["node"], found["equipment"], found["notes"]) == (None, "DPU", [])


def test_a_missing_licence_is_named_and_the_rest_is_recorded(tmp_path: Path) -> None:
    bmcs = [machine(number) for number in range(1, 5)]
    message = {"MessageId": "SMC.1.0.OemLicenseNotPassed", "Message": "The following licenses DCMS were needed"}
    refused = json.dumps({"error": {"@Message.ExtendedInfo": [message]}}).encode()
    bmcs[2].replies[f"{SYSTEM}/EthernetInterfaces"] = Reply(403, refused)
    with serving(tmp_path, bmcs) as at:
        site = metal_site(tmp_path, at, known=False)
        done = site.cli("discover", "BLUEPRINT", "127.77.0.[1-4]", "--trust-new", "--assign", "all")
        why = "needs a licence: EthernetInterfaces: The following licenses DCMS were needed"
        assert f"127.77.0.3: {why}" in done.stderr
        node = yaml.safe_load(site.inventory.read_text())["nodes"]["w1"]
        assert (node["serial"], "mac" in node) == ("SN3", False)


def test_it_has_an_example() -> None:
    done = hpcforge("discover", "--help")
    assert done.returncode == 0
    assert "Example: hpcforge discover site.yaml 10.10.0.0/24" in " ".join(done.stdout.split())
