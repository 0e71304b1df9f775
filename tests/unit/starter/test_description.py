"""Descriptions of machines: the script on this machine, its output in other forms, and who is who."""

from __future__ import annotations

import getpass
import os
import subprocess

import pytest

from hpcforge.starter.description import SCRIPT, Description, clones, parsed, second_addresses

OUTPUT = """\
passwd debian:x:1000:1000:Debian,,,:/home/debian:/bin/bash
passwd broken:x:1000
passwd odd:x:-1:99999999999:::
group debian:x:1000:
group users:x:100:debian
machine-id 0123456789abcdef0123456789abcdef
boot-id 11111111-2222-3333-4444-555555555555
serial ABC123
mac 00:00:00:00:00:00
mac 3C:EC:EF:12:34:56
mac 80:00:02:08:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:4a:1c:80
address 1: lo    inet 127.0.0.1/8 scope host lo
address 2: eno1    inet 10.3.0.7/22 brd 10.3.3.255 scope global dynamic eno1
address 3: eno2    inet 192.0.2.7/99 scope global eno2
container none
cpu # CPU
cpu 0,0,0
pci 0x10de 0x030200
pci 0x10de 0x068000
pci 0x1002 0x038000
pci 0x8086 0x030000
Welcome to this machine
"""


def test_the_script_describes_this_machine() -> None:
    done = subprocess.run(
        ["sh", "-s", "--", getpass.getuser(), "tests", str(os.getuid())],
        input=SCRIPT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = parsed(done.stdout)
    account = found.users[getpass.getuser()]
    assert (account.uid, account.gid) == (os.getuid(), found.groups[getpass.getuser()])
    assert found.boot_id and found.networks["127.0.0.1"] == "127.0.0.0/8" and found.topology.count("\n") >= 1


def test_output_is_read_and_what_is_odd_is_left_out() -> None:
    found = parsed(OUTPUT)
    assert [*found.users] == ["debian"] and found.groups == {"debian": 1000, "users": 100}
    assert found.macs == {"3c:ec:ef:12:34:56"}
    assert found.networks == {"127.0.0.1": "127.0.0.0/8", "10.3.0.7": "10.3.0.0/22"}
    assert found.gpus == {"nvidia": 1, "amd": 1}
    assert (found.serial, found.container, found.topology) == ("ABC123", "", "# CPU\n0,0,0\n")
    assert parsed("container systemd-nspawn\n").container == "systemd-nspawn"


@pytest.mark.parametrize("text", ["", "\0\x1b[31m\n" * 50_000, "passwd a:x:1:1:\u2028b:/home/\x85c:/bin/sh"])
def test_any_output_is_a_description_of_printable_lines(text: str) -> None:
    found = parsed(text)
    assert all(account.home.isprintable() and "\n" not in account.home for account in found.users.values())


def machine(boot: str, mac: str, disk: str = "", serial: str = "S1") -> Description:
    """A machine by its boot, its network card, its disk's machine-id, and its chassis."""
    return Description(boot_id=boot, macs=frozenset({mac} if mac else ()), machine_id=disk, serial=serial)


# Two addresses, whether they are one machine, and why.
PAIRS = {
    "one machine, two addresses": (machine("b1", "m1", "d1"), machine("b1", "m1", "d1"), True),
    "a copy of its disk": (machine("b1", "m1", "d1"), machine("b2", "m2", "d1"), False),
    "a copy with its card's address": (machine("b1", "m1", "d1"), machine("b2", "m1", "d1"), False),
    "containers that show their host's boot": (machine("b1", "m1"), machine("b1", "m2"), False),
    "containers that show their host's serial": (machine("b1", "m1"), machine("b2", "m2"), False),
    "no boot shown, one card": (machine("", "m1"), machine("", "m1"), True),
    "no boot shown, two chassis with one card's address": (machine("", "m1"), machine("", "m1", serial="S2"), False),
    "nothing shown": (machine("", ""), machine("", ""), False),
}


@pytest.mark.parametrize("case", PAIRS)
def test_two_addresses_of_one_machine_are_told_from_two_machines(case: str) -> None:
    first, second, same = PAIRS[case]
    assert second_addresses({"10.0.0.1": first, "10.0.0.2": second}) == ({"10.0.0.2": "10.0.0.1"} if same else {})


def test_a_machine_with_three_addresses_is_named_by_the_first() -> None:
    one, other = machine("b1", "m1"), machine("b2", "m2")
    found = second_addresses({"10.0.0.1": one, "10.0.0.2": other, "10.0.0.3": one, "10.0.0.4": one})
    assert found == {"10.0.0.3": "10.0.0.1", "10.0.0.4": "10.0.0.1"}


def test_clones_share_a_host_key_or_a_machine_id() -> None:
    disk = {name: machine(f"b{name}", f"m{name}", "d1") for name in ("a", "b")}
    apart = {"c": machine("bc", "mc", "d2"), "d": machine("bd", "md", "d3"), "e": machine("be", "me")}
    keys = {"a": "k1", "b": "k1", "c": "k2", "d": "k2", "e": "k3"}
    assert clones({**disk, **apart}, keys) == {("a", "b"): "host key and machine-id", ("c", "d"): "host key"}
