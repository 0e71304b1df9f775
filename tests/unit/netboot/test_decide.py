"""No disk is wiped by mistake: what a machine boots, what a token opens, which disk is written."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from hpcforge.netboot.decide import Need, Record, State, TargetDisk, boots, choose, claimed, failed, offered

GB = 1000**3
WANTED = Record("w1", "wanted", 1000.0, "image")
BLANK = TargetDisk("sda", "S1", 500 * GB, blank=True)
FULL = TargetDisk("sdb", "S2", 500 * GB, blank=False)


@pytest.mark.parametrize("state", get_args(State))
def test_only_what_is_asked_for_is_installed_and_only_in_time(state: State) -> None:
    record = replace(WANTED, state=state)
    assert boots(record, 999.0) == ("install" if state in ("wanted", "offered") else "disk")
    assert boots(record, 1000.0) == "disk"


def test_without_a_record_a_machine_boots_its_disk() -> None:
    assert boots(None, 0.0) == "disk"


def test_a_token_opens_once_and_only_the_newest() -> None:
    first = offered(WANTED, "one")
    second = offered(first, "two")
    assert claimed(second, "one", 999.0, "image") is None
    assert claimed(second, "two", 1000.0, "image") is None  # too late
    assert claimed(second, "two", 999.0, "another") is None
    begun = claimed(second, "two", 999.0, "image")
    assert begun is not None and begun.state == "begun"
    again = claimed(begun, "two", 1001.0, "image")
    assert again is not None and again.state == "failed" and "used twice" in again.why
    assert claimed(again, "two", 999.0, "image") is None
    assert claimed(None, "two", 999.0, "image") is None
    assert claimed(WANTED, "two", 999.0, "image") is None


def test_a_blank_disk_is_written_and_the_smallest_of_several() -> None:
    small = replace(BLANK, name="sdc", bytes=100 * GB)
    assert choose(WANTED, [BLANK, FULL, small]).disks == (small,)


def test_a_disk_with_data_is_written_only_by_its_own_serial_number() -> None:
    found = choose(WANTED, [FULL])
    assert not found.disks and "every disk has data: sdb (serial number S2)" in found.why
    assert choose(replace(WANTED, wipe=("S2",)), [BLANK, FULL]).disks == (FULL,)
    found = choose(replace(WANTED, wipe=("S9",)), [BLANK, FULL])
    assert not found.disks and "0 disks have the serial number S9; it has S1, S2" in found.why
    twins = choose(replace(WANTED, wipe=("S2",)), [FULL, replace(FULL, name="sdc")])
    assert not twins.disks and twins.why.startswith("2 disks")


def test_what_was_installed_with_this_token_is_not_written_again() -> None:
    record = replace(WANTED, wipe=("S2",), token_sha256="abc")
    done = choose(record, [replace(FULL, marker="abc")])
    assert not done.disks and "already" in done.why
    assert choose(record, [replace(FULL, marker="an older one")]).disks


def test_two_installed_disks_are_refused() -> None:
    """The boot loader finds its file system by a label that both would have."""
    earlier = replace(FULL, marker="an older one")
    found = choose(WANTED, [BLANK, earlier])
    assert not found.disks and "an earlier installation is on sdb (serial number S2)" in found.why
    assert choose(replace(WANTED, wipe=("S1",)), [replace(BLANK, blank=False), earlier]).disks == ()
    assert choose(replace(WANTED, wipe=("S2",)), [BLANK, earlier]).disks == (earlier,)


def test_sticks_are_no_disks() -> None:
    assert choose(WANTED, [replace(BLANK, bytes=2 * GB)]).disks == ()
    assert choose(WANTED, []).why == "it has no disk of 4 GB or more"


def test_mirrors_are_two_blank_disks_of_one_size_or_those_that_are_named() -> None:
    need = Need(drives=2)
    small = [replace(BLANK, name=name, serial=name, bytes=100 * GB) for name in ("sdc", "sdd", "sde")]
    odd = replace(BLANK, name="sdf", serial="odd", bytes=99 * GB)
    assert choose(WANTED, [odd, BLANK, *small], need).disks == tuple(small[:2])
    assert choose(WANTED, [BLANK, FULL], need).why.startswith("it has no 2 blank disks of one size: sda (serial")
    assert choose(WANTED, [BLANK], need).why == "it has 1 of 2 disks of 4 GB or more"
    named = replace(WANTED, wipe=("S2",))
    assert choose(named, [BLANK, FULL], need).disks == (FULL, BLANK)  # the other one is blank, and as large
    assert "no 2 blank disks" in choose(named, [FULL, *small], need).why
    assert choose(replace(WANTED, wipe=("S2", "sdc")), [FULL, *small], need).disks == (FULL, small[0])
    assert (
        choose(replace(WANTED, wipe=("S2", "sdc")), [FULL, *small]).why
        == "--wipe names 2 disks, and its system takes 1"
    )
    assert not choose(replace(WANTED, wipe=("S2", "S9")), [BLANK, FULL], need).disks
    assert not choose(named, [BLANK, FULL, replace(small[0], marker="an older one")], need).disks


def test_what_is_too_small_for_the_declared_partitions_is_not_written() -> None:
    assert choose(WANTED, [BLANK], Need(bytes=500 * GB)).disks == (BLANK,)
    assert choose(WANTED, [BLANK], Need(bytes=500 * GB + 1)).why == "it has no disk of 501 GB or more"


def test_no_order_of_events_installs_twice() -> None:
    """Every sequence of four events after one wish: a disk is handed out once at most."""
    for events in product(("offer", "claim", "old claim", "fail"), repeat=4):
        record, given, handed = WANTED, "", 0
        for number, event in enumerate(events):
            if event == "offer" and boots(record, 0.0) == "install":
                given = str(number)
                record = offered(record, given)
            elif event == "fail":
                record = failed(record, "no")
            elif event in ("claim", "old claim"):
                now = claimed(record, given if event == "claim" else "other", 0.0, "image")
                handed += now is not None and now.state == "begun"
                record = now or record
        assert handed <= 1, events
