"""The installer's archive is one that cpio reads, and its script one that a shell does."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

from hpcforge.metal.netboot import installer
from hpcforge.metal.netboot.installer import cpio

SCRIPT = Path(installer.__file__).parent / "installer.sh"


def test_an_archive_has_the_fields_that_the_kernel_reads() -> None:
    archive = cpio({"a": None, "a/b": (0o755, b"text\n"), "a/link": "b"})
    found, at = {}, 0
    while True:
        assert archive[at : at + 6] == b"070701" and at % 4 == 0
        fields = [int(archive[at + 6 + 8 * number : at + 14 + 8 * number], 16) for number in range(13)]
        mode, size, length = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + length - 1].decode()
        start = (at + 110 + length + 3) // 4 * 4
        if name == "TRAILER!!!":
            break
        found[name] = (mode, archive[start : start + size])
        at = (start + size + 3) // 4 * 4
    assert found == {"a": (0o040755, b""), "a/b": (0o100755, b"text\n"), "a/link": (0o120777, b"b")}


def test_the_script_is_one_of_a_shell_and_writes_only_what_it_was_told() -> None:
    subprocess.run(["sh", "-n", str(SCRIPT)], check=True)
    lines = SCRIPT.read_text().splitlines()
    first_write = next(index for index, line in enumerate(lines) if "of=/dev/$disk" in line)
    asked = next(index for index, line in enumerate(lines) if line.startswith("post begin"))
    assert asked < first_write


WGET = """#!/bin/sh
out=
while [ $# -gt 1 ]; do
  case $1 in -O) out=$2; shift 2 ;; --header) shift 2 ;; --post-file) post=$2; shift 2 ;; *) shift ;; esac
done
case $1 in
  */begin) test -e $T/plan && cat $T/plan ;;
  */broken) cp $post $T/broken ;;
  */end) cp $post $T/end ;;
  */root.ext4) cat $T/served > $out; test -e $T/whole ;;
esac
"""
IMAGE = b"i" * (2 << 20)


def installed(folder: Path, sector_bytes: int = 512) -> None:
    """Run the script in a folder that stands for a machine whose one disk has data, until it ends or gives up."""
    for name in ("bin", "dev", "h", "tmp", "sys/block/zzz/queue", "sys/class/net/eth0", "target"):
        (folder / name).mkdir(parents=True)
    (folder / "cmdline").write_text(
        "quiet hpcforge.url=http://x/machine hpcforge.token=t BOOTIF=01-02-00-00-00-00-01\n"
    )
    (folder / "sys/class/net/eth0/address").write_text("02:00:00:00:00:01\n")
    values = {
        "ro": "0",
        "removable": "0",
        "size": "400000",
        "serial": "S1",
        "queue/logical_block_size": str(sector_bytes),
    }
    for name, value in values.items():
        (folder / "sys/block/zzz" / name).write_text(f"{value}\n")
    (folder / "dev/zzz").write_bytes(b"d" * (8 << 20))
    programs = dict.fromkeys(("modprobe", "udevadm", "ip", "udhcpc", "blockdev", "e2fsck", "dmesg"), "")
    programs |= {
        "sfdisk": ": > $T/dev/zzz3",
        "sha256sum": "exec /usr/bin/sha256sum",
        "resize2fs": ": > $T/resized; exit 1",
    }
    for name, body in programs.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / "bin" / "wget").write_text(WGET)
    for path in (folder / "bin").iterdir():
        path.chmod(0o755)
    # Its disk is called zzz: no machine that runs this test has one of that name.
    places = {
        "/hpcforge/bin": "bin",
        "/hpcforge/": "h/",
        "/dev/console": "console",
        "/dev/$": "dev/$",
        "/proc/cmdline": "cmdline",
        "/sys/": "sys/",
        "/tmp/": "tmp/",
        "/target": "target",
    }
    script = SCRIPT.read_text().replace("[ -b ", "[ -e ")
    script = script.replace("while :; do sleep 3600; done", "exit 1")
    pattern = "|".join(map(re.escape, places))
    script = re.sub(pattern, lambda match: f"{folder}/{places[match[0]]}", script)
    done = subprocess.run(["sh", "-c", script], env={"T": str(folder)}, capture_output=True, check=False, timeout=300)
    assert done.returncode == 1, done.stderr


def plan(folder: Path) -> None:
    (folder / "plan").write_text(
        f"disks=zzz\nimage_sha256={hashlib.sha256(IMAGE).hexdigest()}\nimage_bytes={len(IMAGE)}\nmarker=m\nhostname=w1\n"
    )


def test_a_machine_that_is_refused_writes_nothing(tmp_path: Path) -> None:
    installed(tmp_path)
    assert (tmp_path / "dev/zzz").read_bytes() == b"d" * (8 << 20)
    assert "the server refuses" in (tmp_path / "console").read_text()
    assert not (tmp_path / "broken").exists()  # the server knows why


def test_a_disk_with_sectors_of_4096_bytes_is_refused_before_it_is_written(tmp_path: Path) -> None:
    plan(tmp_path)
    installed(tmp_path, 4096)
    assert (tmp_path / "dev/zzz").read_bytes() == b"d" * (8 << 20)
    assert "has sectors of 4096 bytes: only 512 are supported" in (tmp_path / "broken").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("served", "whole", "why"),
    [
        (IMAGE[: 1 << 20], False, "the image ended early"),
        (b"o" * len(IMAGE), True, "the image has another checksum than the server names"),
        (IMAGE, True, "resize2fs: "),  # the checksum is right, and this machine's disk breaks off then
    ],
)
def test_an_image_that_breaks_off_or_is_another_is_named_and_not_started(
    tmp_path: Path, served: bytes, whole: bool, why: str
) -> None:
    plan(tmp_path)
    (tmp_path / "served").write_bytes(served)
    if whole:
        (tmp_path / "whole").touch()
    installed(tmp_path)
    first, *console = (tmp_path / "broken").read_text().splitlines()
    assert first.startswith(why)
    assert any("writes" in line for line in console)
    assert not (tmp_path / "end").exists()
    if "checksum" in why:
        assert (tmp_path / "dev/zzz3").read_bytes()[: 1 << 20] == bytes(1 << 20)
    assert (tmp_path / "resized").exists() == (served == IMAGE)
