"""The lease on the head: who is told of whom, and that a dead holder does not keep it."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hpcforge.node import lease as module
from hpcforge.node.events import EventReporter, NodeError
from hpcforge.node.verbs import checked


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "hpcforge"


def ask(folder, do: str, run_id: str = "one", **more: Any) -> dict[str, Any]:
    heard: list[dict[str, Any]] = []
    request = {"do": do, "run_id": run_id, "who": f"{run_id}@host", "process": None, "stale_s": 90, **more}
    module.lease(request, EventReporter(heard.append), folder)
    answer = heard.pop()
    assert answer["event"] == "lease"
    return {**answer, "warnings": [one["detail"] for one in heard]}


def aged(folder, seconds: float, key: str = "beat") -> None:
    """The lease as it would be had it been beaten (or begun) earlier."""
    path = folder / "lease.json"
    document = json.loads(path.read_text())
    document[key]["up_s"] -= seconds
    path.write_text(json.dumps(document))


def history(folder) -> list[dict[str, Any]]:
    path = folder / "history.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_second_is_told_who_and_since_when(folder):
    assert ask(folder, "take", number=None, process={"pid": 7}) == {
        "event": "lease",
        "held": None,
        "took_over": None,
        "warnings": [],
    }
    aged(folder, 100, "began")
    held = ask(folder, "take", "two")["held"]
    assert (held["run_id"], held["who"], held["process"]) == ("one", "one@host", {"pid": 7})
    assert 100 <= held["age_s"] < 110
    assert held["silent_s"] < 10
    assert ask(folder, "look", "two")["held"]["run_id"] == "one"
    assert (folder / "lease.json").stat().st_mode & 0o777 == 0o600


def test_a_beat_keeps_it_and_learns_the_number(folder):
    ask(folder, "take")
    since = json.loads((folder / "lease.json").read_text())["since_s"]
    aged(folder, 80)
    assert ask(folder, "take", number=12)["held"] is None
    aged(folder, 80)
    held = ask(folder, "take", "two")["held"]
    assert (held["number"], held["since_s"]) == (12, since)
    assert ask(folder, "take")["held"] is None  # a beat without the number does not forget it
    assert json.loads((folder / "lease.json").read_text())["number"] == 12


def test_a_silent_holder_loses_it_and_is_told(folder):
    ask(folder, "take", number=3)
    aged(folder, 91)
    assert ask(folder, "look", "two")["held"] is None
    answer = ask(folder, "take", "two")
    assert answer["held"] is None
    assert answer["took_over"]["who"] == "one@host"
    assert ask(folder, "take", "one")["held"]["who"] == "two@host"
    [line] = history(folder)
    assert (line["id"], line["number"], line["cut_off"]) == ("one", 3, True)


def test_a_holder_known_to_be_dead_loses_it_at_once(folder):
    ask(folder, "take")
    assert ask(folder, "take", "two", over="another")["held"]["run_id"] == "one"
    assert ask(folder, "take", "two", over="one")["took_over"]["run_id"] == "one"


def test_a_reboot_of_the_head_does_not_make_a_lease_eternal(folder):
    ask(folder, "take")
    path = folder / "lease.json"
    document = json.loads(path.read_text())
    document["beat"] = {"boot_id": "an earlier one", "up_s": 1e9}
    path.write_text(json.dumps(document))
    answer = ask(folder, "take", "two", stale_s=0.0)
    assert answer["took_over"]["run_id"] == "one"


def test_given_back_by_its_holder_only(folder):
    ask(folder, "take")
    assert ask(folder, "drop", "two")["held"]["run_id"] == "one"
    assert ask(folder, "take", "two")["held"]
    assert ask(folder, "drop")["held"] is None
    assert ask(folder, "drop")["held"] is None
    assert ask(folder, "take", "two") == {"event": "lease", "held": None, "took_over": None, "warnings": []}
    assert history(folder) == []


def test_a_run_that_ends_before_its_time_says_so(folder):
    ask(folder, "take", number=3)
    ask(folder, "drop", number=3, cut_off=True)
    [line] = history(folder)
    assert (line["id"], line["number"], line["cut_off"]) == ("one", 3, True)
    assert ask(folder, "look")["held"] is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"run_id": "x"}', b"\xff\xfe", bytes(100)])
def test_a_damaged_lease_is_said_and_replaced(folder, data):
    ask(folder, "take")
    (folder / "lease.json").write_bytes(data)
    answer = ask(folder, "take", "two")
    assert answer["held"] is None
    assert "lease.json is damaged" in answer["warnings"][0]
    assert ask(folder, "take")["held"]["run_id"] == "two"


def test_looking_changes_nothing(folder):
    assert ask(folder, "look")["held"] is None
    assert not folder.exists()


def test_what_is_said_of_a_holder_has_no_control_characters(folder):
    ask(folder, "take", who="eve\x1b[2J\n@host")
    assert ask(folder, "take", "two")["held"]["who"] == "eve @host"


def test_unknown_request():
    with pytest.raises(NodeError, match="steal"):
        checked({"verb": "lease", "do": "steal", "stale_s": 90})


def test_of_many_at_once_one_gets_it(folder):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: ask(folder, "take", f"run{n}"), range(24)))
    winner = json.loads((folder / "lease.json").read_text())["run_id"]
    assert [answer["held"] and answer["held"]["run_id"] for answer in answers].count(None) == 1
    assert {answer["held"]["run_id"] for answer in answers if answer["held"]} == {winner}


@pytest.mark.skipif(os.geteuid() != 0, reason="the node program runs as root")
def test_the_program_answers_it(tmp_path):
    """In a mount namespace of its own, so that this machine's /var/lib stays as it is."""
    script = (
        f"mount -t tmpfs none /var/lib && exec {sys.executable} -c 'import sys,json\n"
        "from hpcforge.node import main\n"
        'request = dict(verb="lease", do="take", run_id="a", who="b", stale_s=90)\n'
        "main.main(request)'"
    )
    end = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in end.stdout.splitlines()]
    assert [event["event"] for event in events] == ["lease", "done"]
    assert events[0]["held"] is None
