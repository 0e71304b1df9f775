"""What makes a machine of an image: the second initrd, as the kernel and the machine read it."""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.lab.vm import seed

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
