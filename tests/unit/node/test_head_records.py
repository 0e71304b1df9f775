"""What the head keeps: lines that a crash cannot spoil, and a roster that an older run cannot replace."""

import hashlib
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hpcforge.node import head_records
from hpcforge.node.events import EventReporter, NodeError
from hpcforge.node.verbs import checked


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "hpcforge"


def ask(folder, **request: Any) -> dict[str, Any]:
    heard: list[dict[str, Any]] = []
    head_records.log(request, EventReporter(heard.append), folder)
    answer = heard.pop()
    assert answer["event"] == "log"
    return {**answer, "warnings": [one["detail"] for one in heard]}


def write(folder, number: int, roster: dict[str, Any] | None = None) -> dict[str, Any]:
    if roster is not None:
        checksum = hashlib.sha256(json.dumps(roster, sort_keys=True).encode()).hexdigest()
        roster = {**roster, "checksum": checksum}
    return ask(folder, do="write", line={"number": number}, roster=roster)


def kept(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in json.loads(answer["roster"]).items() if key != "checksum"}


def numbers(answer: dict[str, Any]) -> list[int]:
    return [json.loads(line)["number"] for line in answer["lines"]]


def test_lines_and_roster_come_back_private_to_root(folder):
    roster = {"run": {"number": 1}, "nodes": {"w1": {}}}
    write(folder, 1, roster)
    write(folder, 2)
    found = ask(folder, do="read", last=10)
    assert numbers(found) == [1, 2]
    assert kept(found) == roster
    assert (folder.stat().st_mode & 0o777, (folder / "history.jsonl").stat().st_mode & 0o777) == (0o700, 0o600)
    assert (folder / "roster.json").stat().st_mode & 0o777 == 0o600


def test_the_newest_and_how_many_before(folder):
    for number in range(5):
        write(folder, number)
    found = ask(folder, do="read", last=2)
    assert (numbers(found), found["before"]) == ([3, 4], 3)


def test_an_answer_stays_within_a_line(folder, monkeypatch):
    for number in range(9):
        write(folder, number)
    monkeypatch.setattr(head_records, "_READ_LIMIT", 30)
    found = ask(folder, do="read", last=9)
    assert (numbers(found), found["before"]) == ([7, 8], 7)


def test_nothing_there_yet(folder):
    assert ask(folder, do="read", last=5) == {
        "event": "log",
        "lines": [],
        "before": 0,
        "roster": None,
        "warnings": [],
    }
    assert not folder.exists()


def test_a_line_after_one_that_was_cut_off_stands_by_itself(folder):
    write(folder, 1)
    with (folder / "history.jsonl").open("ab") as file:
        file.write(b'{"number": 2, "wh')
    write(folder, 3)
    first, torn, last = ask(folder, do="read", last=9)["lines"]
    assert (json.loads(first), torn, json.loads(last)) == ({"number": 1}, '{"number": 2, "wh', {"number": 3})


def test_an_older_run_leaves_the_roster(folder):
    write(folder, 7, {"run": {"number": 7}})
    answer = write(folder, 6, {"run": {"number": 6}})
    assert "from run 7, which is newer" in answer["warnings"][0]
    assert kept(answer) == {"run": {"number": 7}}
    assert numbers(ask(folder, do="read", last=9)) == [7, 6]  # it happened, so it is told


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"run": null}', b'{"run": {"number": 9}, "checksum": "of number 1"}']
)
def test_a_damaged_roster_is_replaced(folder, data):
    write(folder, 1, {"run": {"number": 1}})
    (folder / "roster.json").write_bytes(data)
    write(folder, 2, {"run": {"number": 2}})
    assert kept(ask(folder, do="read")) == {"run": {"number": 2}}


def test_many_at_once_keep_every_line(folder):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: write(folder, number), range(40)))
    assert sorted(numbers(ask(folder, do="read", last=99))) == list(range(40))


def test_unknown_request():
    with pytest.raises(NodeError, match="burn"):
        checked({"verb": "log", "do": "burn"})


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_leaves_no_half_line(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", folder], check=True)
    try:
        state = folder / "hpcforge"
        write(state, 1)
        before = (state / "history.jsonl").read_bytes()
        with pytest.raises(OSError, match="No space"):
            ask(state, do="write", line={"number": 2, "text": "x" * 20_000})
        assert (state / "history.jsonl").read_bytes() == before
    finally:
        subprocess.run(["umount", folder], check=True)


def test_damage_to_the_roster_does_not_look_like_no_roster(folder):
    write(folder, 1, {"run": {"number": 1}})
    (folder / "roster.json").write_bytes(b'{"run": {"number": 1}, "cluster": "\xff"}')
    assert "\ufffd" in ask(folder, do="read")["roster"]
