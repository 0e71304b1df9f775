"""Work on a node outlives the connection: it is attached to again, heard whole, and never done twice."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import pytest

from hpcforge.engines import Engines
from hpcforge.engines.tasks import Event, NodeProgram
from tests.stories.engines.conftest import Nodes

pytestmark = pytest.mark.lab

END_CONNECTIONS = "pkill -f 'sshd: op[s]'"


def soon(script: str) -> str:
    """A script that runs when the connection it was asked for over has ended: it may end all of them.

    That is when sshd's process has ended that sudo, whose child this is, was begun by.
    """
    ended = "while [ -e /proc/$(($(ps -o ppid= $PPID))) ]; do sleep 0.1; done"
    return f'systemd-run --quiet --collect sh -c "{ended}; sleep 0.5; {script}"'


def finish_request(marks: str, *seconds: float | None) -> dict[str, Any]:
    """Checks of so many seconds, a role each; each leaves a line, so that doing one twice shows.

    None: until the test says so, by `go`.
    """

    def waits(wait: float | None) -> str:
        return f"until [ -e {marks}-go ]; do sleep 0.1; done" if wait is None else f"sleep {wait}"

    work = [
        {
            "role": f"r{number}",
            "checks": [
                {
                    "name": "slow",
                    "command": ["sh", "-c", f"echo {number} >>{marks}; {waits(wait)}"],
                    "stdout": None,
                    "wait_s": 0,
                }
            ],
        }
        for number, wait in enumerate(seconds)
    ]
    return {"verb": "converge", "phase": "finish", "work": work, **named()}


def go(nodes: Nodes, node: str, marks: str) -> None:
    nodes.inside(node, f"touch {marks}-go")


def named() -> dict[str, Any]:
    identity = secrets.token_hex(4)
    run = {"number": 1, "id": "a" * 8, "who": "me@here", "cluster": "test", "hpcforge": "0", "commit": None}
    return {"run": run, "task": f"{identity}.t"}


def until(engines: Engines, kind: str, within_s: float = 300.0) -> list[Event]:
    """Events up to and with the first of a kind."""
    seen: list[Event] = []
    while not seen or seen[-1].kind != kind:
        event = engines.next(within_s)
        assert event is not None, f"no {kind} within {within_s} s; so far: {seen}"
        seen.append(event)
    return seen


def done_roles(events: list[Event]) -> list[str]:
    return [event.data["role"] for event in events if event.kind == "role_done"]


def test_a_connection_that_ends_is_made_again_and_nothing_is_heard_twice(engines: Engines, nodes: Nodes) -> None:
    marks = f"/root/marks-{secrets.token_hex(4)}"
    engines.start(NodeProgram("t", "n1", finish_request(marks, 0.1, None, 0.1), 60.0))
    first = until(engines, "role_done")
    nodes.inside("n1", soon(END_CONNECTIONS))
    lost = until(engines, "warning")
    go(nodes, "n1", marks)
    rest = lost + until(engines, "result")
    assert rest[-1].data["ok"], rest[-1].data
    assert done_roles(first + rest) == ["r0", "r1", "r2"]
    assert [event.kind for event in rest].count("done") == 1
    said = [event.data["detail"] for event in rest if event.kind == "warning"]
    assert "the connection was lost" in said[0]
    assert "reconnected after" in said[1]
    assert nodes.inside("n1", f"cat {marks}") == "0\n1\n2\n"


def test_the_jump_hosts_connection_may_end_as_well(nodes: Nodes, tmp_path: Path) -> None:
    marks = f"/root/marks-{secrets.token_hex(4)}"
    n1, n2 = nodes.targets["n1"], nodes.targets["n2"]
    with Engines([n2], tmp_path / "work", tmp_path, via=n1) as engines:
        engines.start(NodeProgram("t", "n2", finish_request(marks, 0.1, None, 0.1), 60.0))
        first = until(engines, "role_done")
        nodes.inside("n1", soon(END_CONNECTIONS))
        lost = until(engines, "warning")
        go(nodes, "n2", marks)
        rest = lost + until(engines, "result")
    assert rest[-1].data["ok"], rest[-1].data
    assert any("reconnected after" in event.data["detail"] for event in rest if event.kind == "warning")
    assert done_roles(first + rest) == ["r0", "r1", "r2"]
    assert nodes.inside("n2", f"cat {marks}") == "0\n1\n2\n"


def test_a_cut_that_heals(engines: Engines, nodes: Nodes) -> None:
    """Long enough for both ends to give the connection up; the node finishes its work meanwhile."""
    marks = f"/root/marks-{secrets.token_hex(4)}"
    engines.start(NodeProgram("t", "n2", finish_request(marks, 0.1, 5, 5), 120.0))
    first = until(engines, "role_done")
    nodes.link("n2", "down")
    try:
        lost = until(engines, "warning")
        assert "the connection was lost" in lost[-1].data["detail"]
    finally:
        nodes.link("n2", "up")
    rest = until(engines, "result")
    assert rest[-1].data["ok"], rest[-1].data
    assert done_roles(first + lost + rest) == ["r0", "r1", "r2"]
    assert nodes.inside("n2", f"cat {marks}") == "0\n1\n2\n"


def test_a_node_that_stays_away_is_unreachable_in_the_end(engines: Engines, nodes: Nodes) -> None:
    marks = f"/root/marks-{secrets.token_hex(4)}"
    engines.start(NodeProgram("t", "n2", finish_request(marks, 0.1, 30), 120.0, reattach_s=4.0))
    until(engines, "role_done")
    start = time.monotonic()
    nodes.inside("n2", soon(f"systemctl stop ssh; {END_CONNECTIONS}; sleep 20; systemctl start ssh"))
    data = until(engines, "result")[-1].data
    assert (data["unreachable"], data["reason"]) == (True, "link")
    assert "n2" in data["error"]
    assert "within 4 s" in data["error"]
    while True:  # it is started again
        try:
            nodes.inside("n2", "pkill -f 'sleep 3[0]' || true")
            break
        except Exception:
            assert time.monotonic() - start < 120
            time.sleep(1)


def test_work_that_was_lost_with_its_node_is_said_so(engines: Engines, nodes: Nodes) -> None:
    marks = f"/root/marks-{secrets.token_hex(4)}"
    engines.start(NodeProgram("t", "n1", finish_request(marks, 0.1, 30), 60.0))
    until(engines, "role_done")
    # what a restart does: processes and /run are gone
    gone = "pkill -9 -f 'hpcforge.nod[e]'; rm /run/hpcforge/*.jsonl"
    nodes.inside("n1", soon(f"systemctl stop ssh; {END_CONNECTIONS}; {gone}; systemctl start ssh"))
    data = until(engines, "result")[-1].data
    assert (data["ok"], data["unreachable"]) == (False, False)
    assert data["error"] == "n1 restarted during a step: apply again"
    assert nodes.inside("n1", f"cat {marks}") == "0\n1\n"


def test_a_late_task_is_stopped_on_the_node_after_what_it_is_at(engines: Engines, nodes: Nodes) -> None:
    marks = f"/root/marks-{secrets.token_hex(4)}"
    answer = engines.run(NodeProgram("t", "n1", finish_request(marks, 20, 4, 4), 10.0)).data
    assert answer["error"] == "not finished within 10 s on n1: stopped"
    after = engines.run(NodeProgram("w", "n1", {"verb": "wait", "timeout_s": 0}, 30.0)).data
    assert after["ok"], after["error"]
    assert nodes.inside("n1", f"cat {marks}") == "0\n"
