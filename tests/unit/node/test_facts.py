"""A node's facts, as /proc and /sys have them."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from hpcforge.node import facts


def test_facts_are_parsed(tmp_path):
    release = facts.os_release("ID=debian\nVERSION_ID=\"12\"\n# comment\nNAME='Debian'\n")
    assert (release["ID"], release["VERSION_ID"], release["NAME"]) == ("debian", "12", "Debian")
    assert facts.memory_kib("MemFree: 1 kB\nMemTotal:       24684096 kB\n") == 24684096
    for index, (vendor, kind) in enumerate([("0x10de", "0x030200"), ("0x10de", "0x040300"), ("0x8086", "0x030000")]):
        device = tmp_path / f"0000:0{index}:00.0"
        device.mkdir()
        (device / "vendor").write_text(vendor + "\n")
        (device / "class").write_text(kind + "\n")
    assert facts.nvidia_gpus(tmp_path) == 1
    assert facts.nvidia_gpus(tmp_path / "none") == 0
    (tmp_path / "fakegpu0").touch()  # a plain file is no GPU
    assert facts.fake_gpus(tmp_path) == 0


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("ID=ubuntu\nVERSION_ID=22.04\n", {"ID": "ubuntu", "VERSION_ID": "22.04"}),
        ("#ID=x\nNAME='A=b'\n\nbroken\n", {"NAME": "A=b"}),
        ("", {}),
    ],
)
def test_an_os_release_file_has_quoted_and_plain_values(text, pairs):
    assert facts.os_release(text) == pairs


def test_a_meminfo_without_a_total_is_no_memory():
    assert facts.memory_kib("MemFree: 1 kB\nMemTotalLow: 7 kB\n") == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="makes devices")
def test_stand_ins_of_gpus_are_character_devices_with_a_number(tmp_path):
    for name in ("fakegpu0", "fakegpu1", "fakegpux", "fakegpu"):
        os.mknod(tmp_path / name, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    assert facts.fake_gpus(tmp_path) == 2


def test_a_node_whose_linker_knows_no_library_of_nvidia_is_not_asked(tmp_path):
    (tmp_path / "cache").write_bytes(b"libc.so.6")
    assert [facts.ask_driver(tmp_path / name) for name in ("cache", "absent")] == [None, None]
    assert facts.driver_says(None) is None


def test_facts_of_this_machine():
    collected = facts.collect()
    assert collected["hostname"] == os.uname().nodename
    assert collected["python"].split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    assert collected["memory_kib"] > 0 and collected["cpus"] == os.cpu_count()
    assert set(collected["gpus"]) == {"fake", "nvidia", "amd"}
