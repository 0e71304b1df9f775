"""What a node remembers, and that damage to it is never taken for an empty memory."""

import json
import subprocess
import sys

import pytest

from hpcforge.node import lock, receipt
from hpcforge.node.events import NodeError

FULL = receipt.Receipt(frozenset({"munge.service", "slurmd.service"}), {"pytorch": "ab" * 32})


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "hpcforge"


def flipped(data: bytes) -> bytes:
    place = data.index(b"abab")
    return data[:place] + bytes([data[place] ^ 2]) + data[place + 1 :]


def test_it_comes_back_private_to_root(folder):
    assert receipt.load(folder) == receipt.EMPTY
    folder.parent.joinpath("hpcforge").mkdir(mode=0o755)
    receipt.save(FULL, folder)
    assert receipt.load(folder) == FULL
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "receipt.json").stat().st_mode & 0o777 == 0o600
    assert FULL.restart_due("munge.service")
    assert not FULL.restart_due("chrony.service")


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-3],
        lambda _: b"",
        lambda data: bytes(len(data)),
        flipped,
        lambda data: data.replace(b"munge", b"chron"),
        lambda _: b"[]",
        lambda _: b"\xff",
    ],
    ids=["truncated", "end lost", "empty", "zeros", "bit flipped", "edited", "another shape", "not UTF-8"],
)
def test_damage_is_trouble(folder, harm):
    receipt.save(FULL, folder)
    path = folder / "receipt.json"
    path.write_bytes(harm(path.read_bytes()))
    found = receipt.load(folder)
    assert "damaged" in found.trouble
    assert found.restart_due("any.service")
    assert not found.opaque
    damaged = path.read_bytes()
    assert receipt.load_for_change(folder).trouble
    assert (folder / "receipt.json.damaged").read_bytes() == damaged  # for a person to look at
    receipt.save(FULL, folder)
    assert receipt.load(folder) == FULL


def test_newer_is_left_alone(folder):
    receipt.save(FULL, folder)
    path = folder / "receipt.json"
    path.write_text(json.dumps({"schema": receipt.SCHEMA + 1, "else": "entirely"}))
    assert "newer hpcforge" in receipt.load(folder).trouble
    with pytest.raises(NodeError, match="use that one"):
        receipt.load_for_change(folder)
    assert "entirely" in path.read_text()


def test_second_run_is_told_who_is_at_work(folder):
    with (
        lock.held({}, "converge, prepare", folder),
        pytest.raises(NodeError, match=r"another hpcforge run .* converge, prepare since \d{4}-.* process \d+"),
        lock.held({}, "record", folder),
    ):
        pass
    with lock.held({}, "record", folder):
        pass


def test_lock_is_free_after_its_holder_was_killed(folder):
    code = (
        "import sys,time; from pathlib import Path; from hpcforge.node import lock\n"
        "with lock.held({}, 'converge', Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(NodeError, match=f"process {holder.pid}"), lock.held({}, "record", folder):
            pass
        holder.kill()
        holder.wait()
    with lock.held({}, "record", folder):
        pass
