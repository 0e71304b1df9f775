"""Virtual machines, as far as none is started: command lines, shares of memory, what makes a machine of an image."""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.lab.errors import LabError
from hpcforge.lab.vm import qemu, seed
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
ONE = seed.Identity(
    name="w01",
    address="10.77.0.11",
    prefix=24,
    mac="52:54:00:01:02:03",
    names={},
    machine_id="0123456789abcdef0123456789abcdef",
    host_key="-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n",
    host_key_pub="ssh-ed25519 AAAAhost root@w01\n",
    login_user="ops",
    login_uid=1500,
    login_key_pub="ssh-ed25519 AAAAlogin lab\n",
    packages="10.77.0.1:3177",
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


def unpacked(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """What the kernel would unpack of a cpio archive: mode and content by name."""
    found, at = {}, 0
    while True:
        assert archive[at : at + 6] == b"070701", "every entry begins at a multiple of four bytes"
        words = [int(archive[at + 6 + 8 * word : at + 14 + 8 * word], 16) for word in range(13)]
        mode, size, named = words[1], words[6], words[11]
        name = archive[at + 110 : at + 110 + named - 1].decode()
        at += (110 + named + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[at : at + size])
        at += (size + 3) // 4 * 4


@pytest.fixture
def tar() -> tarfile.TarFile:
    _, content = unpacked(seed.initrd(ONE))["lab/machine.tar"]
    return tarfile.open(fileobj=io.BytesIO(content))


def text(tar: tarfile.TarFile, name: str) -> str:
    file = tar.extractfile(name)
    assert file is not None
    return file.read().decode()


def test_what_is_laid_behind_the_initrd_is_run_when_the_root_is_mounted() -> None:
    found = unpacked(seed.initrd(ONE))
    assert found["lab/machine.tar"][0] == 0o100600
    assert found["scripts/local-bottom/lab-machine"][0] == 0o100755
    assert found["scripts/local-bottom/ORDER"][1].splitlines()[0] == b'/scripts/local-bottom/lab-machine "$@"'
    assert {name for name, (mode, _) in found.items() if mode == 0o040755} == {"lab", "scripts", "scripts/local-bottom"}


def test_a_machine_gets_its_name_address_and_keys(tar: tarfile.TarFile) -> None:
    assert text(tar, "etc/hostname") == "w01\n"
    assert text(tar, "etc/machine-id") == f"{ONE.machine_id}\n"
    assert "Address=10.77.0.11/24\n" in text(tar, "etc/systemd/network/10-lab.network")
    assert text(tar, "etc/ssh/ssh_host_ed25519_key") == ONE.host_key
    assert text(tar, "etc/lab-machine.keys") == ONE.login_key_pub
    modes = {member.name: member.mode for member in tar.getmembers()}
    assert modes["etc/ssh/ssh_host_ed25519_key"] == 0o600
    assert modes["etc/sudoers.d/ops"] == 0o440
    assert {(member.uid, member.gid) for member in tar.getmembers()} == {(0, 0)}
    assert not any(member.isdir() for member in tar.getmembers())  # the modes of those of the image stay


def test_cards_have_the_names_that_the_blueprint_gives_them() -> None:
    named = replace(ONE, names={"52:54:00:01:02:03": "eno1", "52:54:00:01:02:04": "eno2"})
    _, content = unpacked(seed.initrd(named))["lab/machine.tar"]
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        link = text(tar, "etc/systemd/network/10-lab-eno2.link")
    assert link == "[Match]\nPermanentMACAddress=52:54:00:01:02:04\n\n[Link]\nName=eno2\n"


def test_timers_of_apt_are_off_and_the_network_is_on(tar: tarfile.TarFile) -> None:
    links = {member.name: member.linkname for member in tar.getmembers() if member.issym()}
    assert links["etc/systemd/system/apt-daily.timer"] == "/dev/null"
    assert "etc/systemd/system/multi-user.target.wants/systemd-networkd.service" in links


@pytest.mark.parametrize("uid", [1500, None])
def test_the_login_user_is_made_once(tmp_path: Path, uid: int | None) -> None:
    """The script of the machine, with programs that write down how they were called."""
    content = unpacked(seed.initrd(replace(ONE, login_uid=uid)))["lab/machine.tar"][1]
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        script = text(tar, "etc/lab-machine.sh")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("id", "groupadd", "useradd", "mkdir", "mv", "chmod", "chown", "rm", "sync"):
        answer = "exit 1" if name == "id" else "exit 0"
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/said\n{answer}\n')
        (programs / name).chmod(0o755)
    script = script.replace("export PATH=/usr/sbin", f"export PATH={programs}:/usr/sbin")
    script = script.replace("/etc/lab-machine\n", f"{tmp_path}/made\n")
    subprocess.run(["sh", "-c", script], check=True)
    said = (tmp_path / "said").read_text().splitlines()
    number = " --uid=1500 --gid=1500" if uid else ""
    assert ("groupadd --gid=1500 ops" in said) == (uid is not None)
    assert f"useradd --create-home --shell /bin/bash{number} ops" in said
    assert "mv /etc/lab-machine.keys /home/ops/.ssh/authorized_keys" in said
    assert (tmp_path / "made").read_text() == "w01\n"


def test_the_scripts_are_scripts(tar: tarfile.TarFile) -> None:
    found = unpacked(seed.initrd(ONE))
    names = ("scripts/local-bottom/lab-machine", "scripts/local-bottom/ORDER")
    for script in (*(found[name][1].decode() for name in names), text(tar, "etc/lab-machine.sh")):
        subprocess.run(["sh", "-n", "-c", script], check=True)
