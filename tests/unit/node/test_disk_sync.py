"""What is told to be done is on the disk first. What a power cut really takes is in tests/stories/vm/test_power.py."""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from hpcforge import atomic
from hpcforge.node import converge, disk_sync, files, guard, head_records
from hpcforge.node.events import EventReporter
from hpcforge.node.receipt import Receipt

MOUNTS = """\
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
23 22 0:5 / /dev rw shared:2 - devtmpfs udev rw
24 22 8:3 / /var rw,relatime shared:3 - xfs /dev/sda3 rw
25 24 8:3 /lib /var/lib rw,relatime shared:4 - xfs /dev/sda3 rw
26 22 0:44 / /opt ro shared:5 - nfs4 files:/opt rw,vers=4.2
27 22 8:5 / /home rw shared:6 - ext4 /dev/sda5 rw
28 22 8:6 / /usr/my\\040own rw shared:7 - ext4 /dev/sda6 rw
29 22 0:31 / /boot rw - zfs tank/boot rw
"""


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens on a node that has no lock and no receipt, in its order."""
    seen: list[str] = []
    monkeypatch.setattr(converge.lock, "held", lambda *_: nullcontext())
    monkeypatch.setattr(converge.receipt, "begin", lambda *_: Receipt())
    monkeypatch.setattr(converge.receipt, "save", lambda new: seen.append(f"saved {dict(new.opaque)}"))
    monkeypatch.setattr(converge.disk_sync, "system", lambda: seen.append("synced"))
    return seen


def test_each_file_system_of_the_node_s_own_is_synced_once_and_no_other() -> None:
    assert disk_sync.places(MOUNTS) == ["/", "/var", "/boot"]


def test_a_container_s_root_is_synced() -> None:
    assert disk_sync.places("900 800 0:61 / / rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/b") == ["/"]


def test_this_machine_s_file_systems_can_be_synced() -> None:
    disk_sync.system()


def test_what_a_role_s_own_code_wrote_is_synced_before_it_is_called_done(order: list[str]) -> None:
    converge.record({"verb": "record", "role": "motd", "digest": "d", "reboot": False}, EventReporter(lambda _: None))
    assert order == ["synced", "saved {'motd': 'd'}"]


@pytest.mark.parametrize(("did", "expected"), [("enabled", ["changed", "synced", "role_done"]), (None, ["role_done"])])
def test_what_was_enabled_is_synced_before_its_role_is_done(
    order: list[str], monkeypatch: pytest.MonkeyPatch, did: str | None, expected: list[str]
) -> None:
    monkeypatch.setattr(converge.units, "bring_up", lambda *_: did)
    report = EventReporter(lambda event: order.append(event["event"]))
    role: Any = {"role": "motd", "units": [{"name": "motd.service", "actions": ["enable"]}]}
    converge._finish_role(role, Receipt(), report, None)
    assert order == expected


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders that were synced, by the names that were in them then."""
    seen: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            seen.append(" ".join(sorted(os.listdir(fd))))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def test_a_file_s_new_name_is_synced(tmp_path: Path, synced: list[str]) -> None:
    atomic.write_atomically(tmp_path / "kept", "all of it")
    assert synced == ["kept"]


def test_a_file_of_a_node_and_its_new_name_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the content, under another name; then the name; then the folder that has it."""
    did: list[str] = []
    real_sync, real_rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        kept = os.fstat(fd)
        did.append("folder " + " ".join(os.listdir(fd)) if stat.S_ISDIR(kept.st_mode) else f"{kept.st_size} bytes")
        real_sync(fd)

    def rename(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        did.append(f"renamed to {new}")
        real_rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        files.replace(folder, "conf", b"all of it", files.Rights(os.geteuid(), os.getegid(), 0o600))
    finally:
        os.close(folder)
    assert did == ["9 bytes", "renamed to conf", "folder conf"]


def test_the_name_of_a_new_history_is_synced(tmp_path: Path, synced: list[str]) -> None:
    with head_records.open_folder(tmp_path / "hpcforge") as folder:
        head_records.append(folder, {"number": 1})
        assert synced[-1:] == [head_records.HISTORY]
        synced.clear()
        head_records.append(folder, {"number": 2})
    assert synced == []


def test_a_guard_that_was_confirmed_does_not_come_back(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "FOLDER", tmp_path / "guards")
    monkeypatch.setattr(guard, "UNITS", tmp_path)
    monkeypatch.setattr(guard.commands, "run", lambda *_: None)
    guard.FOLDER.mkdir()
    for name in ("r1.json", "r1.py", "r2.json"):
        (guard.FOLDER / name).write_text("{}")
    guard._disarm("r1")
    assert synced[-1:] == ["r2.json"]
