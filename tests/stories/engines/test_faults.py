"""Links that die and nodes that hang, while work is under way."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpcforge.engines import Engines
from hpcforge.engines.tasks import Bootstrap, Command, Deploy, NodeProgram
from tests.stories.engines.conftest import Nodes

pytestmark = pytest.mark.lab

WORK = ("sh", "-c", "echo begun; sleep 60; echo ended")


def _wait(engines: Engines, wanted: tuple[str, str]) -> dict[str, object]:
    while (event := engines.next(60.0)) is not None:
        if (event.task, event.kind) == wanted:
            return event.data
    raise AssertionError(f"no {wanted} within a minute")


def test_a_cut_link_is_noticed_others_go_on_and_it_can_come_back(engines: Engines, nodes: Nodes) -> None:
    engines.start(Command("cut", "n1", WORK, timeout_s=90.0))
    engines.start(Command("good", "n2", ("sleep", "3")))
    _wait(engines, ("cut", "line"))
    nodes.link("n1", "down")
    try:
        start = time.monotonic()
        assert _wait(engines, ("good", "result"))["ok"]
        answer = _wait(engines, ("cut", "result"))
        assert time.monotonic() - start < 45
        assert (answer["unreachable"], answer["reason"]) == (True, "link")
        assert "n1" in str(answer["error"])
    finally:
        nodes.link("n1", "up")
        nodes.inside("n1", "pkill -f 'sleep 6[0]' || true")  # the node has yet to see that nobody is there any more
    assert engines.run(Command("back", "n1", ("true",))).data["ok"]


def test_a_hung_sshd_is_noticed(engines: Engines, nodes: Nodes, tmp_path: Path) -> None:
    source = tmp_path / "slow" / "deploy.py"
    source.parent.mkdir()
    source.write_text("from pyinfra.operations import server\nserver.shell(name='Sleep', commands=['sleep 60'])\n")
    engines.start(Deploy("hung", "n1", source, {}, 90.0))
    _wait(engines, ("hung", "progress"))
    time.sleep(0.5)
    stopped = nodes.inside("n1", "pgrep -f 'sshd: ops@notty' | sort -n | head -n 1").strip()
    nodes.inside("n1", f"kill -STOP {stopped}")
    try:
        start = time.monotonic()
        answer = _wait(engines, ("hung", "result"))
        assert time.monotonic() - start < 45
        assert (answer["unreachable"], answer["reason"]) == (True, "link")
    finally:
        nodes.inside("n1", f"kill -CONT {stopped}; pkill -f 'sleep 6[0]' || true")


def test_a_new_connection_waits_for_an_sshd_that_listens_again(engines: Engines, nodes: Nodes) -> None:
    """As one that reads its configuration again does in a moment."""
    away = "systemctl stop ssh; touch /run/away; sleep 2; systemctl start ssh; rm /run/away"
    nodes.inside("n2", f"systemd-run -q sh -c '{away}'; until [ -e /run/away ]; do sleep 0.1; done")
    look = {"verb": "observe", "wanted": []}
    answer = engines.run(NodeProgram("t", "n2", look, 60.0, fresh=True)).data
    assert answer["ok"], answer


def test_a_connection_that_the_node_ends_is_noticed_at_once(engines: Engines, nodes: Nodes) -> None:
    engines.start(Command("t", "n2", WORK, timeout_s=90.0))
    _wait(engines, ("t", "line"))
    start = time.monotonic()
    nodes.inside("n2", "kill $(pgrep -f 'sshd: ops@notty' | sort -n | head -n 1)")
    answer = _wait(engines, ("t", "result"))
    assert time.monotonic() - start < 12  # not only when it is asked whether it lives
    assert answer["reason"] == "link"
    assert engines.run(Command("again", "n2", ("true",))).data["ok"]


def test_a_node_that_says_nothing_is_given_up_and_one_that_is_slow_is_not(engines: Engines, nodes: Nodes) -> None:
    """Its sshd lets us in, and the program that it is asked to run never begins."""
    for node in ("n1", "n2"):
        assert engines.run(Bootstrap(f"python:{node}", node, 300.0)).data["ok"]
    slow = {"verb": "observe", "wanted": [], "asks": {"slow": ["sleep", "6"]}}
    hang = "mv /usr/bin/python3 /usr/bin/python3.away; printf '#!/bin/sh\\nexec sleep 61\\n' > /usr/bin/python3"
    nodes.inside("n1", f"{hang}; chmod 755 /usr/bin/python3")
    try:
        start = time.monotonic()
        engines.start(NodeProgram("silent", "n1", {"verb": "observe", "wanted": []}, 40.0, begins_s=4.0))
        engines.start(NodeProgram("slow", "n2", slow, 40.0, begins_s=4.0))
        answer = _wait(engines, ("silent", "result"))
        assert time.monotonic() - start < 20
        assert (answer["unreachable"], answer["reason"]) == (True, "silent")
        assert "sent nothing for 4 s" in str(answer["error"])
        answer = _wait(engines, ("slow", "result"))
        assert answer["ok"], answer
        assert time.monotonic() - start > 6
    finally:
        nodes.inside("n1", "mv /usr/bin/python3.away /usr/bin/python3; pkill -f 'sleep 6[1]' || true")
    assert engines.run(NodeProgram("back", "n1", {"verb": "observe", "wanted": []}, 40.0, begins_s=30.0)).data["ok"]
