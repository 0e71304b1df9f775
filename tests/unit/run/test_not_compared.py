"""A node that cannot compare a resource with what is desired, or whose program fails, is no node that is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.plan import exit_code
from hpcforge.engines.tasks import NodeProgram, Task
from hpcforge.report.plan_text import plan_text
from tests.support.three_nodes import DONE, HEAD_SAYS, ODD, Line, Printed, observed


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def saying(*events: Line) -> Callable[[Task], list[Any] | None]:
    """All nodes are right, but that one says these events when it is looked at."""

    def odd(task: Task) -> list[Line] | None:
        if not isinstance(task, NodeProgram) or task.request["verb"] != "observe":
            return None
        last = {**DONE, "failed": [one["role"] for one in events if one["event"] == "failed" and one["role"]]}
        right = {**(HEAD_SAYS if task.node == "head" else observed("client")), "armed": [], "at_work": None}
        right |= {"differs": [], "reverted": [], "receipt": {**right["receipt"], "surplus": {}, "unowned": []}}
        return [*events, right, last] if task.node == ODD else [right, DONE]

    return odd


def failed(role: str | None, kind: str, name: str) -> Line:
    return {"event": "failed", "role": role, "kind": kind, "name": name, "error": "No module named 'odd'"}


def test_a_resource_that_cannot_be_compared_leaves_its_node_out() -> None:
    printed = Printed(saying(failed("client", "volume", "scratch")))
    _, plan = printed.look()
    assert exit_code(plan) == Exit.FAILED
    assert plan.state.refused[ODD].startswith("client: volume scratch: cannot be compared: No module named 'odd'")
    assert f"{ODD}: left out, and nothing is changed there" in plan_text(plan)
    applied, ended = printed.apply()
    assert applied.state.refused.keys() == {ODD}
    assert ended.outcomes[ODD]["client"].status == "failed"


def test_what_is_right_elsewhere_stays_right() -> None:
    _, plan = Printed(saying()).look()
    assert (plan.state.refused, plan.changes.steps) == ({}, ())
    assert exit_code(plan) == Exit.DONE


def test_packages_that_cannot_be_compared_are_installed_again() -> None:
    """Which may repair what is wrong with dpkg."""
    _, plan = Printed(saying(failed("client", "package", "dpkg"))).look()
    assert plan.state.refused == {}


def test_a_node_program_that_does_not_start_is_an_unreachable_node() -> None:
    """As where a module of it cannot be imported: Python's last line is all that there is."""

    def silent(task: Task) -> list[Any] | None:
        observes = isinstance(task, NodeProgram) and task.request["verb"] == "observe"
        return ["ModuleNotFoundError: No module named 'odd'"] if observes and task.node == ODD else saying()(task)

    _, plan = Printed(silent).look()
    assert plan.state.unreachable == {ODD: f"the node program on {ODD} ended without an answer"}
    assert exit_code(plan) == Exit.UNREACHABLE


def test_a_request_that_failed_as_a_whole_is_an_unreachable_node() -> None:
    _, plan = Printed(saying(failed(None, "node", "observe"))).look()
    assert "No module named 'odd'" in plan.state.unreachable[ODD]
    assert exit_code(plan) == Exit.UNREACHABLE
