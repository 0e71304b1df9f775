"""Machines of Vagrant, as far as none is started: what its Vagrantfile is given, and what is known by names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.lab.errors import LabError
from hpcforge.lab.kinds import KINDS
from hpcforge.lab.vagrant import machines
from hpcforge.lab.vm import seed
from tests.unit.lab.vm.test_seed import ONE, unpacked

HERE = Path(__file__).parent
MACHINE = machines.VagrantMachine(
    memory_mib=2048,
    cpus=4,
    mac="52:54:00:00:00:99",
    cards=(machines.NetworkCard("hf0001", "52:54:00:00:00:01"), machines.NetworkCard("hf0001s123456", "52:54:00:00:00:02")),
    box=machines.VagrantBox("hf0001-machines-0123abcd", "file:///var/lib/libvirt/hpcforge/hf0001/machines-0123abcd/disk.box"),
    kernel="/var/lib/libvirt/hpcforge/hf0001/machines-0123abcd/vmlinuz",
    initrd="/var/lib/libvirt/hpcforge/hf0001/w01.initrd",
    console="/var/lib/hpcforge/labs/machines/nodes/w01/console.log",
)


def test_what_the_vagrantfile_is_given(golden: Callable[[Path, str], None]) -> None:
    document = machines.vagrantfile_document(
        tag="hf0001",
        driver="qemu",
        user="ops",
        key=Path("/var/lib/hpcforge/labs/machines/key"),
        state="/home/ada/hpcforge/vagrant/.vagrant",
        machines={"w01": MACHINE, "w02": replace(MACHINE, cards=MACHINE.cards[:1], mac="52:54:00:00:00:98")},
    )
    golden(HERE / "vagrant.json", json.dumps(document, indent=2) + "\n")


def test_the_vagrantfile_reads_all_that_it_is_given() -> None:
    """A key that is written and not read would be a setting without effect."""
    text = (HERE.parents[3] / "vagrant" / "Vagrantfile").read_text()
    document = json.loads((HERE / "vagrant.json").read_text())
    machine = document["machines"]["w01"]
    keys = {*document, *document["ssh"], *machine, *machine["box"], *machine["cards"][0]} - {"schema_version"}
    assert {key for key in keys if f'["{key}"]' not in text} == set()


def test_a_box_says_its_size_in_whole_gib() -> None:
    assert machines.box_metadata(20 << 30) == {"provider": "libvirt", "format": "qcow2", "virtual_size": 20}
    assert machines.box_metadata((20 << 30) + 1)["virtual_size"] == 21


@pytest.mark.parametrize(
    ("words", "domain"),
    [
        (["/usr/bin/qemu-system-x86_64", "-name", "guest=hf0001-w01,debug-threads=on", "-S"], "hf0001-w01"),
        (["/usr/bin/qemu-system-x86_64", "-name", "hf0001-w01"], ""),  # one of our own, not libvirt's
        (["vim", "-name", "guest=hf0001-w01"], ""),
        (["qemu-system-x86_64", "-name"], ""),
        ([], ""),
    ],
)
def test_a_machine_of_libvirt_s_is_known_by_its_command_line(words: list[str], domain: str) -> None:
    assert machines.domain_in(words) == domain


def test_a_card_from_elsewhere_asks_for_its_address_and_changes_nothing_else() -> None:
    def files(one: seed.Identity) -> bytes:
        return unpacked(seed.initrd(one))["lab/machine.tar"][1]

    with_it = files(replace(ONE, by_dhcp="52:54:00:00:00:99"))
    assert b"PermanentMACAddress=52:54:00:00:00:99" in with_it and b"UseRoutes=no" in with_it
    assert b"DHCP" not in files(ONE)  # machines of `--on vm` have none


def test_without_an_image_nothing_is_started() -> None:
    with pytest.raises(LabError, match="no image of Debian 12 exists") as error:
        KINDS["vagrant"].trees("12", [], print)
    assert error.value.hint == "build it: `hpcforge image build --disk BLUEPRINT`"


@pytest.mark.parametrize(
    ("line", "step"),
    [  # forms of Vagrant 2.3 and vagrant-libvirt 0.11 (their templates/locales/en.yml)
        ("==> w01: Creating image (snapshot of base box volume).\n", "w01: Vagrant: Creating image (snapshot of base box volume)."),
        ("==> w01: Waiting for machine to boot. This may take a few minutes...", "w01: Vagrant: Waiting for machine to boot. This may take a few minutes..."),
        ("==> w01:  -- Memory:            1536M", None),
        ("    w01: SSH address: 192.168.121.7:22", None),
        ("Bringing machine 'w01' up with 'libvirt' provider...", None),
        ("", None),
    ],
)
def test_a_step_in_a_line_of_vagrants(line: str, step: str | None) -> None:
    assert machines.step_in(line) == step
