"""Lines out of what a log server keeps: by node, text and time, also in files that were set aside."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from hpcforge.node import logs
from hpcforge.node.events import EventReporter, NodeError
from hpcforge.node.requests import LogsRequest

NOW = 1_795_600_000  # 2026-11-25T09:46:40+00:00


def ask(folder: Path, *nodes: str, text: str = "", since_s: float = NOW - 3600, last: int = 100) -> dict[str, Any]:
    heard: list[dict[str, Any]] = []
    request: LogsRequest = {
        "verb": "logs", "folder": str(folder), "nodes": [*nodes], "since_s": since_s, "text": text, "last": last,
    }  # fmt: skip
    logs.logs(request, EventReporter(heard.append))
    (answer,) = heard
    return answer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w01.log").write_text(
        "2026-11-25T08:00:00+00:00 w01 a: too old\n"
        "2026-11-25T09:30:00.5+00:00 w01 kernel: NVRM: Xid 79\n"
        "no time at all Xid\n"
        "2026-11-25T10:40:00+01:00 w01 b: of another zone\n"
    )
    with gzip.open(tmp_path / "w01.log.2.gz", "wt") as file:
        file.write("2026-11-25T09:20:00+00:00 w01 kernel: Xid 31\n")
    (tmp_path / "w010.log").write_text("2026-11-25T09:40:00+00:00 w010 kernel: Xid 1\n")
    (tmp_path / "w02.log").write_bytes(b"2026-11-25T09:35:00Z w02 c: Xid \xff" + b"x" * 9000 + b"\n")
    for path in tmp_path.iterdir():
        os.utime(path, (NOW, NOW))
    return tmp_path


def test_lines_are_in_the_order_of_their_times(folder: Path) -> None:
    answer = ask(folder, "w01", "w02", "w03")
    assert [(line["node"], line["line"].split()[2]) for line in answer["lines"]] == [
        ("w01", "kernel:"), ("w01", "kernel:"), ("w02", "c:"), ("w01", "b:"),
    ]  # fmt: skip
    assert answer["kept"] == ["w01", "w02"]


def test_a_text_is_no_pattern_and_long_lines_are_cut(folder: Path) -> None:
    assert [line["line"][-2:] for line in ask(folder, "w01", text="Xid")["lines"]] == ["31", "79"]
    assert ask(folder, "w01", text="X.d")["lines"] == []
    (line,) = ask(folder, "w02")["lines"]
    assert len(line["line"]) == 4096


def test_the_last_lines_are_shown(folder: Path) -> None:
    answer = ask(folder, "w01", "w02", last=1)
    assert [line["line"].split()[2] for line in answer["lines"]] == ["b:"]
    assert answer["left_out"] == 3


def test_links_and_devices_are_not_followed(folder: Path) -> None:
    (folder / "w04.log").symlink_to("/etc/passwd")
    os.mkfifo(folder / "w05.log")
    assert ask(folder, "w04", "w05", since_s=0)["lines"] == []
    with pytest.raises(NodeError, match="No such file"):
        ask(folder / "away", "w01")
