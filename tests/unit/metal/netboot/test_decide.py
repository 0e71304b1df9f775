"""No disk is wiped by mistake: what a machine boots, what a token opens, which disk is written."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from hpcforge.metal.netboot.decide import (
    Need,
    Record,
    State,
    TargetDisk,
    boots,
    choose,
    claimed,
    failed,
    offered,
    renewed,
)

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


def test_a_disk_with_two_paths_is_not_mirrored_with_itself() -> None:
    """The kernel shows one disk under two names."""
    need = Need(drives=2)
    paths = [
        replace(BLANK, name=name, serial=serial)
        for name, serial in zip(("sda", "sdb", "sdc"), ("S1", "S1", "S2"), strict=True)
    ]
    assert choose(WANTED, paths, need).why.startswith("2 disks have the serial number S1 or its WWN: sda (serial")
    assert not choose(replace(WANTED, wipe=("S2",)), [*paths[:2], replace(paths[2], blank=False)], need).disks
    assert choose(WANTED, paths[1:], need).disks == tuple(paths[1:])
    by_wwn = [replace(BLANK, name="sda", wwn="naa.5"), replace(BLANK, name="sdb", serial="S9", wwn="naa.5")]
    assert "or its WWN" in choose(WANTED, by_wwn, need).why
    unnumbered = [replace(BLANK, name="sda", serial=""), replace(BLANK, name="sdb", serial="")]
    assert "sda has no serial number, which mirrors need" in choose(WANTED, unnumbered, need).why
    assert choose(WANTED, unnumbered).disks == (unnumbered[0],)  # where one is enough


def test_a_disk_without_a_serial_number_is_written_again_by_the_machine_that_began_it() -> None:
    half = TargetDisk("vda", "", 500 * GB, blank=False)
    begun = replace(WANTED, state="failed", disks=("vda",), mac="02:00:00:00:00:01")
    again = replace(WANTED, wipe=("vda",), mac="02:00:00:00:00:01")
    assert choose(renewed(again, begun), [half]).disks == (half,)
    assert choose(renewed(again, renewed(again, begun)), [half]).disks == (
        half,
    )  # a try that wrote nothing was between
    for other in (
        None,
        replace(begun, mac="02:00:00:00:00:02"),
        replace(begun, state="installed"),
        replace(begun, disks=("vdb",)),
    ):
        assert "vda has no serial number, and no earlier try" in choose(renewed(again, other), [half]).why
    numbered = replace(half, serial="S1")  # a name is no number of a disk that has one
    assert "0 disks have the serial number vda" in choose(renewed(again, begun), [numbered]).why
    assert "every disk has data" in choose(renewed(replace(again, wipe=()), begun), [half]).why


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
