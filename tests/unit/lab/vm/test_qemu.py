"""Virtual machines, as far as none is started: command lines and shares of memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.lab.errors import LabError
from hpcforge.lab.vm import qemu
from hpcforge.rehearsal.lab_facts import Card

MACHINE = qemu.VirtualMachine(
    name="hf0001-w01",
    memory_mib=2048,
    topology=(1, 2, 2),
    disk=Path("/labs/a,b/disk.qcow2"),
    kernel=Path("/images/a/vmlinuz"),
    initrd=Path("/labs/a,b/initrd.img"),
    cables=qemu.cables("hf0001-w01", [Card()]),
    console=Path("/labs/a,b/console.log"),
    monitor=Path("/run/hpcforge/hf0001-w01.monitor"),
)


def following(words: list[str], option: str) -> list[str]:
    return [words[at + 1] for at, word in enumerate(words) if word == option]


def test_a_machine_s_command_line() -> None:
    words = qemu.argv(MACHINE, "tcg")
    assert following(words, "-smp") == ["cpus=4,sockets=1,cores=2,threads=2"]
    assert following(words, "-drive") == ["file=/labs/a,,b/disk.qcow2,if=virtio,format=qcow2,discard=unmap"]
    assert following(words, "-serial") == ["file:/labs/a,,b/console.log"]
    assert following(words, "-initrd") == ["/labs/a,b/initrd.img"]  # a path of its own, not one among options
    assert following(words, "-netdev") == ["tap,id=lab,ifname=vt-hf0001-w01,script=no,downscript=no"]
    assert following(words, "-device")[0] == f"virtio-net-pci,netdev=lab,mac={qemu.mac('hf0001-w01')},host_mtu=1500"
    assert following(words, "-accel")[0].startswith("tcg,")


def test_with_kvm_only_the_processor_is_another() -> None:
    tcg, kvm = (qemu.argv(MACHINE, one) for one in ("tcg", "kvm"))
    assert [following(words, "-accel") for words in (tcg, kvm)] == [["tcg,thread=multi,tb-size=256"], ["kvm"]]
    differing = {a for a, b in zip(tcg, kvm, strict=True) if a != b}
    assert differing == {"tcg,thread=multi,tb-size=256", "Nehalem"}


def test_a_machine_is_known_by_its_command_line() -> None:
    words = ["/usr/bin/qemu-system-x86_64", *qemu.argv(MACHINE, "kvm")[1:]]
    assert (qemu.name_in(words), qemu.memory_in(words)) == ("hf0001-w01", 2048)
    assert qemu.name_in(["vim", "-name", "hf0001-w01"]) == ""
    assert qemu.name_in([]) == ""
    assert qemu.memory_in(["qemu-system-x86_64", "-m", "2G"]) == 0  # somebody else's


def test_further_cards_and_drives_change_nothing_of_what_comes_before_them() -> None:
    drives = (Path("/labs/a,b/drive0.qcow2"), Path("/labs/a,b/drive1.qcow2"))
    plain = qemu.argv(MACHINE, "tcg")
    words = qemu.argv(
        replace(MACHINE, cables=qemu.cables("hf0001-w01", [Card(), Card("eno2"), Card("ens1", "data")]), drives=drives),
        "tcg",
    )
    at = plain.index("virtio-rng-pci") + 1
    assert words[:at] == plain[:at]
    assert following(words, "-netdev")[1:] == [
        "tap,id=card1,ifname=v1-hf0001-w01,script=no,downscript=no",
        "tap,id=card2,ifname=v2-hf0001-w01,script=no,downscript=no",
    ]
    mtus = [word.endswith(",host_mtu=1500") for word in following(words, "-device") if word.startswith("virtio-net")]
    assert mtus == [True, True, False]  # the lab's own bridge carries no larger packets
    assert following(words, "-drive")[1] == "file=/labs/a,,b/drive0.qcow2,if=none,id=drive0,format=qcow2,discard=unmap"
    assert following(words, "-device")[-1] == "nvme,drive=drive1,serial=drive1"


def test_more_cards_than_cables_have_names_are_refused() -> None:
    names = [cable.tap for cable in qemu.cables("hf0001-12345", [Card()] * 10)]
    assert len(set(names)) == 10 and max(map(len, names)) == 15
    with pytest.raises(LabError, match="10 network cards at most, and hf0001-w01 would have 11"):
        qemu.cables("hf0001-w01", [Card()] * 11)


def test_machines_have_cards_and_cables_of_their_own() -> None:
    macs = {qemu.mac(f"hf0001-w{number:02}", card) for number in range(50) for card in range(3)}
    assert len(macs) == 150
    assert all(mac.startswith("52:54:00:") and len(mac) == 17 for mac in macs)
    assert len(qemu.tap("hf0001-12345")) <= 15


@pytest.mark.parametrize(
    ("total", "taken", "machines", "share"),
    [
        (24_000, [], 3, 4096),  # never more than helps
        (8_192, [], 3, 1536),
        (8_192, [1536], 2, 1536),  # those that come later have as much as the first
        (8_192, [1536, 1536], 1, 1792),
        (24_000, [4096] * 3, 2, 3840),
    ],
)
def test_the_share_of_memory(total: int, taken: list[int], machines: int, share: int) -> None:
    assert qemu.share_mib(total, taken, machines) == share


@pytest.mark.parametrize(("total", "taken", "machines"), [(4_096, [], 3), (8_192, [4096], 2), (1_024, [], 1)])
def test_too_little_memory_is_said_before_anything_starts(total: int, taken: list[int], machines: int) -> None:
    with pytest.raises(LabError, match=rf"{total} MiB, is too small for {machines} more virtual machines of 1024 MiB"):
        qemu.share_mib(total, taken, machines)
