"""A file is whole at every moment, also with several writers, and no temporary file stays."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hpcforge.atomic import rewrite, rewrite_all, write_atomically

WRITER = """
import sys
from pathlib import Path
from hpcforge.atomic import write_atomically
input()
for _ in range(40):
    write_atomically(Path(sys.argv[1]), (sys.argv[2] + ": whole\\n") * 20_000)
"""


def test_of_several_writers_each_succeeds_and_the_file_is_always_whole(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text("old: whole\n")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in "abc"
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.close()
        writer.stdin = None
    reads = 0
    while any(writer.poll() is None for writer in writers):
        lines = path.read_text().splitlines()
        assert len(lines) in (1, 20_000) and len(set(lines)) == 1
        reads += 1
    assert [writer.communicate()[1] for writer in writers] == [b"", b"", b""]
    assert reads and [file.name for file in tmp_path.iterdir()] == ["inventory.yaml"]


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_name_as_long_as_file_systems_allow_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("\N{LATIN SMALL LETTER E WITH ACUTE}" * 127 + "e")
    write_atomically(path, b"x", 0o640)
    assert path.read_bytes() == b"x" and path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("write", [write_atomically, rewrite])
def test_a_pipe_is_written_to_and_stays(tmp_path: Path, write: object) -> None:
    """As root an option with /dev/null must not make a regular file of it."""
    assert callable(write)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write(pipe, "page")
    assert pipe.is_fifo()
    reader.join(30)
    assert read == ["page"]


def test_of_several_files_none_is_written_where_one_cannot_be(tmp_path: Path) -> None:
    first, second = tmp_path / "site.yaml", tmp_path / "away" / "inventory.yaml"
    first.write_text("old")
    with pytest.raises(FileNotFoundError):
        rewrite_all({first: "new", second: "new"})
    assert first.read_text() == "old"
    script = (
        "import resource, signal, sys; from pathlib import Path; from hpcforge.atomic import rewrite_all;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "a, b = map(Path, sys.argv[1:]); rewrite_all({a: 'new', b: 'x' * 8192})"
    )
    other = tmp_path / "other.yaml"
    done = subprocess.run(
        [sys.executable, "-c", script, first, other], capture_output=True, text=True, check=False, timeout=60
    )
    assert f"File too large: '{other}'" in done.stderr
    assert first.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["site.yaml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_stays_theirs(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text("old")
    os.chown(path, 65534, 65534)
    rewrite(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid, path.read_text()) == (65534, 65534, "new")
