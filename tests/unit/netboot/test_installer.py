"""The installer's archive is one that cpio reads, and its script one that a shell does."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hpcforge.netboot import installer
from hpcforge.netboot.installer import cpio

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
    first_write = next(index for index, line in enumerate(lines) if "of=$device" in line)
    asked = next(index for index, line in enumerate(lines) if line.startswith("post begin"))
    assert asked < first_write
