"""Nodes are installed each on its own clock, by fake controllers whose machines ask the real decisions."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from hpcforge.cli.site import open_site
from hpcforge.errors import UsageError
from hpcforge.image.manifest import Disk, Lock, Manifest
from hpcforge.image.request import ImageRequest
from hpcforge.metal import install as work
from hpcforge.metal.install import Installation, InstallWatch, choose, install, left_out
from hpcforge.metal.netboot.configurations import BootHost
from hpcforge.metal.netboot.server import Boots, begin, boot_script, broken, end, identity
from hpcforge.metal.power import HeadUnknownError, Outcome
from hpcforge.metal.serve import record_keys, records_of, want
from hpcforge.plan.plan import Install
from hpcforge.run.site import Site
from tests.support.fake_bmc import SYSTEM, FakeBmc, Serving, serving
from tests.support.metal_site import NAMES, MetalSite, metal_site

HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJpoPS4bXRaMe6tTySXaOHYpzDJSvNFcFZLYYhJcYgBN"
IMAGE = Manifest(
    "img", Lock(ImageRequest("debian", "12", (), ()), "", (), 0, (), ()), (), "", 0, 0.0, "", Disk("d" * 64, 1)
)


@dataclass
class FakeMachine:
    """A machine behind a fake controller: what its firmware and the installer ask, at once."""

    name: str
    place: int
    fails: list[str] = field(default_factory=list)  # how each start from the network ends; then it succeeds
    blank: bool = True
    serial: str | None = None  # of its disk; None: by its place
    of: Boots | None = None
    up: bool = False
    starts: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"10.78.0.{8 + self.place}"

    def changed(self, bmc: FakeBmc) -> None:
        self.up = False
        if bmc.on:
            self.starts.append(bmc.target)
            self.up = self.starts_from_the_network() if bmc.target == "Pxe" else not self.blank

    def starts_from_the_network(self) -> bool:
        """Return whether its operating system runs in the end."""
        assert self.of is not None
        how = self.fails.pop(0) if self.fails else ""
        if how in ("silent", "own-disk"):
            return how == "own-disk"
        text = boot_script(self.of, f"02:00:00:00:00:0{self.place}", "pcbios", self.address).text
        found = re.search("hpcforge.token=(\\S+)", text)
        if found is None:
            return not self.blank
        if how == "panic":
            return False
        disk = {
            "name": "vda",
            "serial": f"D{self.place}" if self.serial is None else self.serial,
            "bytes": 10**10,
            "blank": self.blank,
            "marker": "",
        }
        if begin(self.of, found[1], self.address, json.dumps([disk]).encode()).status != 200:
            return False
        self.blank = False
        if how == "checksum":
            broken(self.of, found[1], self.address, b"the image has another checksum\nfetched\n")
            return False
        if how == "power":  # it is lost and returns
            boot_script(self.of, f"02:00:00:00:00:0{self.place}", "pcbios", self.address)
            return False
        end(self.of, found[1], self.address, HOST_KEY.encode())
        return how != "dead"


@dataclass
class Metal:
    """A site with its machines."""

    folder: Path
    site: MetalSite
    bmcs: list[FakeBmc]
    machines: dict[str, FakeMachine]
    clock_s: float = 0.0

    def open(self) -> Site:
        return open_site(self.site.blueprint, None, None, self.folder / "key", needs_lab=False)

    def install(
        self, *names: str, wipes: tuple[str, ...] = (), say: Callable[[str], None] = print
    ) -> dict[str, Installation]:
        site = self.open()
        hosts = {node.mac: BootHost(node.name, node.mac, node.address) for node in site.cluster.nodes if node.mac}
        files = {"vmlinuz": "a" * 64, "initrd.img": "b" * 64, "root.ext4": "c" * 64}
        identities = {name: identity(name, {}) for name in NAMES}
        boots = Boots(records_of(site), hosts, identities, "http://10.78.0.1", "img", 3 << 20, files)
        for machine in self.machines.values():
            machine.of = boots
        up = {machine.address: machine for machine in self.machines.values()}
        installs = [Install(name, "Debian 12", "img", wipes) for name in names]
        told: list[Installation] = []

        def look() -> None:
            self.clock_s += 1.0  # each look at the nodes is a second, however slow this machine is

        done = install(
            site,
            installs,
            look,
            say,
            watch=InstallWatch(30.0, 0.02, answers=lambda address: up[address].up, now_s=lambda: self.clock_s),
            finished=told.append,
        )
        assert {found.node: found for found in told} == {found.node: found for found in done}
        return {found.node: found for found in done}

    def host_keys(self, name: str) -> object:
        return yaml.safe_load(self.site.inventory.read_text())["nodes"][name].get("host_keys")


@pytest.fixture
def metal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Metal]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(work, "_PAUSE_S", 0.0)
    machines = {name: FakeMachine(name, place) for place, name in enumerate(NAMES, 1)}
    bmcs = [FakeBmc(changed=machine.changed) for machine in machines.values()]
    at: Serving
    with serving(tmp_path, bmcs) as at:
        yield Metal(tmp_path, metal_site(tmp_path, at), bmcs, machines)


def test_nodes_are_installed_side_by_side_and_their_host_keys_recorded(metal: Metal) -> None:
    done = metal.install("head", "w1", "w2")
    assert [(found.why, found.tries) for found in done.values()] == [("", 1)] * 3
    assert set(done["w1"].phases_s) == {"power", "firmware", "kernel", "install", "start"}
    assert metal.host_keys("w1") == [HOST_KEY]
    assert metal.host_keys("store") is None
    assert records_of(metal.open()).read()["w2"].state == "installed"


@pytest.mark.parametrize("how", ["checksum", "power"])
def test_what_fails_is_tried_again_on_the_disk_that_it_began_to_write(metal: Metal, how: str) -> None:
    metal.machines["w1"].fails = [how]
    done = metal.install("w1", "w2")
    assert (done["w1"].why, done["w1"].tries, done["w2"].tries) == ("", 2, 1)
    assert metal.bmcs[2].resets.count("On") == 2


def test_what_fails_twice_is_left_out_with_its_cause_and_console_while_others_go_on(metal: Metal) -> None:
    metal.machines["w1"].fails = ["checksum", "checksum"]
    done = metal.install("w1", "w2")
    assert done["w1"].why == "the installer says: the image has another checksum"
    assert (done["w1"].console, done["w1"].tries) == (("fetched",), 2)
    assert done["w2"].why == "" and metal.host_keys("w1") is None
    record = records_of(metal.open()).read()["w1"]
    assert (record.state, record.console) == ("failed", ("fetched",))


def test_a_machine_that_does_not_boot_from_the_network_is_named_within_the_limit(metal: Metal) -> None:
    metal.machines["w1"].fails = ["silent", "silent"]
    done = metal.install("w1", "w2")
    assert "never asked for its boot script" in done["w1"].why and done["w1"].tries == 2
    assert done["w2"].why == ""
    assert records_of(metal.open()).read()["w1"].state == "failed"


@pytest.mark.parametrize("how", ["forgets-the-override", "forgets-when-off"])
def test_a_controller_that_forgets_the_network_is_named_after_one_try(metal: Metal, how: str) -> None:
    metal.bmcs[2].does, metal.bmcs[2].on = (how,), True
    done = metal.install("w1", "w2")
    assert "the request to boot from" in done["w1"].why
    assert (done["w1"].tries, metal.machines["w1"].starts) == (1, [])  # it was not started for nothing
    assert done["w2"].why == ""


def test_a_machine_that_starts_from_its_own_disk_is_named_within_one_boot(metal: Metal) -> None:
    metal.machines["w1"].blank, metal.machines["w1"].fails = False, ["own-disk"]
    done = metal.install("w1", wipes=("D3",))
    assert "it started from its own disk" in done["w1"].why and done["w1"].tries == 1
    assert metal.bmcs[2].resets == ["On"]
    assert records_of(metal.open()).read()["w1"].state == "failed"


def test_a_machine_whose_override_is_in_its_settings_is_installed(metal: Metal) -> None:
    metal.bmcs[2].does = ("settings-resource", "redirects")
    assert metal.install("w1")["w1"].why == ""
    assert [path for path, _ in metal.bmcs[2].patches] == [f"{SYSTEM}/Settings"]


def test_an_installer_that_does_not_start_is_not_waited_for_as_long(metal: Metal) -> None:
    metal.machines["w1"].fails = ["panic"]
    done = metal.install("w1")
    assert (done["w1"].why, done["w1"].tries) == ("", 2)


def test_a_disk_with_data_is_written_only_by_its_serial_number(metal: Metal) -> None:
    metal.machines["w1"].blank = False
    done = metal.install("w1")
    assert "every disk has data: vda (serial number D3)" in done["w1"].why
    assert done["w1"].tries == 1  # the next try would find the same
    assert metal.install("w1", wipes=("D3",))["w1"].why == ""


def test_what_is_installed_and_silent_starts_again_and_is_not_written_again(metal: Metal) -> None:
    metal.machines["w1"].fails = ["dead"]
    done = metal.install("w1")
    assert (done["w1"].why, done["w1"].tries) == ("", 2)
    assert metal.machines["w1"].starts == ["Pxe", "None"]
    assert metal.bmcs[2].on


def test_a_controller_that_keeps_the_override_is_told_to_forget_it(metal: Metal) -> None:
    metal.bmcs[2].does = ("once-becomes-continuous",)
    assert metal.install("w1")["w1"].why == ""
    assert (metal.bmcs[2].enabled, metal.bmcs[2].target) == ("Disabled", "None")


def test_a_refused_login_is_not_tried_again(metal: Metal) -> None:
    metal.bmcs[2].does = ("refused-login",)
    done = metal.install("w1", "w2")
    assert "refuses user" in done["w1"].why and done["w1"].tries == 1
    assert done["w2"].why == ""


def test_an_end_of_the_servers_ends_it_and_nothing_is_asked_for_any_more(metal: Metal) -> None:
    site = metal.open()
    metal.machines["w1"].fails = ["silent"]

    def ended() -> None:
        raise UsageError("dnsmasq has ended")

    said: list[str] = []
    metal.bmcs[2].does = ("once-becomes-continuous",)
    with pytest.raises(UsageError, match="dnsmasq"):
        install(
            site,
            [Install("w1", "Debian 12", "img")],
            ended,
            said.append,
            watch=InstallWatch(every_s=0.05, answers=_silent),
        )
    assert (metal.bmcs[2].enabled, metal.bmcs[2].target) == ("Disabled", "None")
    assert records_of(site).read()["w1"].until_s == 0.0


def test_a_disk_without_a_serial_number_is_tried_again_also_by_the_command_that_is_printed(metal: Metal) -> None:
    metal.machines["w1"].serial = ""
    metal.machines["w1"].fails = ["checksum"]
    done = metal.install("w1")
    assert (done["w1"].why, done["w1"].tries) == ("", 2)
    metal.machines["w2"].serial = ""
    metal.machines["w2"].fails = ["checksum", "checksum"]
    assert metal.install("w2")["w2"].why == "the installer says: the image has another checksum"
    assert records_of(metal.open()).read()["w2"].disks == ("vda",)  # what `cut_off` names, too
    assert metal.install("w2", wipes=("vda",))["w2"].why == ""


def test_series_that_wait_for_their_turn_do_not_stop_the_others(metal: Metal, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the pool has threads: what is installed is asked for ssh meanwhile."""
    started, ends, reached = threading.Event(), threading.Event(), threading.Event()

    def slow(*_: object) -> Iterator[Outcome]:
        started.set()
        ends.wait(60)
        yield from ()

    monkeypatch.setattr(work, "_started", slow)
    site = metal.open()
    installs = [Install(name, "Debian 12", "img") for name in NAMES]
    watch = InstallWatch(30.0, answers=lambda _: not reached.set(), now_s=lambda: 1.0)
    with ThreadPoolExecutor(2) as pool:
        under_way = work._Work(site, installs, {}, pool, print, watch, lambda _: None)
        for name in ("store", "head", "w1"):
            under_way.boot([name])
        assert started.wait(30)
        under_way.open["w2"] = replace(under_way.open["w2"], on_s=0.0, installed_s=0.5)
        step = threading.Thread(target=under_way.step)
        step.start()
        try:
            assert reached.wait(10)
        finally:
            ends.set()
            step.join()
        under_way.series.shutdown()
    assert under_way.done["w2"].why == ""


def test_an_end_while_a_disk_is_written_is_recorded_with_the_command_that_goes_on(metal: Metal) -> None:
    site, said = metal.open(), list[str]()
    want(site, ["w1"], {}, "img", 1.0)

    def begun() -> None:
        records_of(site).change("w1", lambda now: now and replace(now, state="begun", disks=("D3", "D4")))
        raise UsageError("nginx has ended")

    with pytest.raises(UsageError, match="nginx"):
        install(site, [Install("w1", "Debian 12", "img")], begun, said.append, watch=InstallWatch(answers=_silent))
    record = records_of(site).read()["w1"]
    assert (record.state, record.why) == ("failed", "it was cut off")
    [line] = [line for line in said if "cut off" in line]
    assert line.startswith("w1: cut off while disk D3 and D4 was written; again: ")
    assert line.endswith(" --install w1 --wipe w1=D3 --wipe w1=D4")


def test_only_nodes_without_an_operating_system_are_chosen(metal: Metal) -> None:
    keys = {"w2": [HOST_KEY]}
    said = yaml.safe_load(metal.site.inventory.read_text())
    said["nodes"]["w2"]["host_keys"] = keys["w2"]
    del said["nodes"]["store"]["mac"]
    metal.site.inventory.write_text(yaml.safe_dump(said, sort_keys=False))
    chosen, kept = choose(metal.open(), NAMES, {}, IMAGE, answers=lambda address: address == "10.78.0.10")
    assert chosen == (Install("w1", "Debian 12", "img"),)
    assert "ssh answers at 10.78.0.10" in kept["head"]
    assert "host key is recorded" in kept["w2"] and "MAC address is not known" in kept["store"]
    chosen, _ = choose(metal.open(), ["head"], {"head": ("D2",)}, IMAGE, answers=lambda _address: True)
    assert chosen == (Install("head", "Debian 12", "img", ("D2",)),)
    with pytest.raises(UsageError, match="--wipe w2: its host key is recorded"):
        choose(metal.open(), NAMES, {"w2": ("D4",)}, IMAGE, answers=lambda _address: False)


def test_nothing_answers_where_nothing_listens() -> None:
    assert not work.ssh_answers("127.0.0.254")


def test_a_node_that_got_a_job_meanwhile_is_left_out(metal: Metal, monkeypatch: pytest.MonkeyPatch) -> None:
    said = yaml.safe_load(metal.site.inventory.read_text())
    said["nodes"]["head"]["host_keys"] = [HOST_KEY]
    metal.site.inventory.write_text(yaml.safe_dump(said, sort_keys=False))
    monkeypatch.setattr(work, "open_engines", lambda _site: nullcontext())
    monkeypatch.setattr(work, "refuse_while_applying", lambda *_: None)
    monkeypatch.setattr(work, "jobs", lambda *_: {"w1": ("7",)})
    installs = [Install(name, "Debian 12", "img") for name in ("w1", "w2")]
    assert left_out(metal.open(), installs) == [Installation("w1", 0, "it runs job 7")]
    assert metal.bmcs[2].asked == []


def test_nothing_is_wiped_while_the_head_cannot_be_asked(metal: Metal) -> None:
    def answers(address: str) -> bool:
        return address == "10.78.0.10"

    with pytest.raises(HeadUnknownError, match="jobs of w1 cannot be read: ssh answers on head") as error:
        choose(metal.open(), ["w1", "w2"], {"w1": ("D3",)}, IMAGE, answers=answers)
    assert "--trust-new" in error.value.hint
    assert len(choose(metal.open(), ["w1", "w2"], {}, IMAGE, answers=answers)[0]) == 2
    assert len(choose(metal.open(), ["head", "w1"], {"head": ("D2",), "w1": ("D3",)}, IMAGE, answers=answers)[0]) == 2


def test_a_host_key_that_is_not_recorded_ends_nothing(metal: Metal, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_once(site: Site, names: list[str]) -> tuple[str, ...]:
        if names == ["w1"]:
            raise OSError("the disk is full")
        return record_keys(site, names)

    monkeypatch.setattr(work, "record_keys", fails_once)
    said: list[str] = []
    done = metal.install("w1", "w2", say=said.append)
    assert (done["w1"].why, done["w2"].why) == ("", "")
    assert any("w1: " in line and "host key NOT recorded (the disk is full)" in line for line in said)
    assert metal.host_keys("w1") is None and metal.host_keys("w2") == [HOST_KEY]


def test_what_fails_in_one_step_starts_again_together(metal: Metal, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("w1", "w2"):
        metal.machines[name].fails = ["silent"]
    together: list[list[str]] = []
    boot = work._Work.boot

    def seen(self: work._Work, names: Collection[str], *, network: bool = True) -> None:
        together.append(sorted(names))
        boot(self, names, network=network)

    monkeypatch.setattr(work._Work, "boot", seen)
    done = metal.install("w1", "w2")
    assert [found.tries for found in done.values()] == [2, 2]
    assert len(together) <= 3 and together[0] == ["w1", "w2"]


def _silent(_address: str) -> bool:
    return False
