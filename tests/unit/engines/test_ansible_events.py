"""What ansible-runner says of a play of several nodes, as the events of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcforge.engines.ansible_events import DONE, NodeEvent, PlayListener
from hpcforge.engines.tasks import Ansible

NODES = ("n1", "n2", "n3")


def hearing(*, mends: bool = False) -> PlayListener:
    return PlayListener({node: Ansible(node, node, Path("motd"), {}, 60.0) for node in NODES}, mends=mends)


def line(event: str, host: str | None = None, task: str = "Write", role: str | None = "motd", **data: Any) -> str:
    of = {"host": host} if host else {}
    return json.dumps({"event": event, "event_data": {**of, "task": task, "role": role, **data}})


def heard(of: PlayListener, *lines: str) -> list[NodeEvent]:
    return [said for line in lines for said in of.line(line)]


def ended(said: list[NodeEvent]) -> dict[str, tuple[bool, str | None]]:
    return {node: (data["ok"], data["error"]) for node, kind, data in said if kind == "result"}


def stats(**failures: int) -> str:
    return line("playbook_on_stats", failures=failures, dark={})


def test_each_node_ends_when_it_is_through_whatever_the_others_do() -> None:
    of = hearing()
    assert heard(of, line("runner_on_start", "n1")) == [("n1", "progress", {"role": "motd", "detail": "Write"})]
    said = heard(of, line("runner_on_ok", "n1", res={"changed": True}), line("runner_on_ok", "n1", DONE, None))
    assert [kind for _, kind, _ in said] == ["changed", "result"]
    assert said[-1][2]["changed"] is True
    said = heard(of, line("runner_on_failed", "n2", res={"msg": "no room"}))
    assert [(node, kind) for node, kind, _ in said] == [("n2", "failed"), ("n2", "result")]
    assert ended(said) == {"n2": (False, "motd on n2: Write: no room")}
    said = heard(of, line("runner_on_unreachable", "n3", res={"msg": "x\nssh: Connection refused"}))
    assert said[-1][2]["reason"] == "refused"
    assert list(of.over(6)) == []


def test_the_sign_that_a_node_is_through_cannot_come_from_its_role() -> None:
    assert heard(hearing(), line("runner_on_ok", "n1", DONE, "motd")) == []


def test_what_a_role_mends_has_not_failed() -> None:
    of = hearing(mends=True)
    failed = [line("runner_on_failed", node, res={"msg": "no"}) for node in ("n1", "n2")]
    assert heard(of, *failed) == []
    assert ended(heard(of, line("runner_on_ok", "n1", DONE, None))) == {"n1": (True, None)}
    heard(of, stats(n2=1))
    last = list(of.over(2))
    assert ended(last) == {"n2": (False, "motd on n2: Write: no"), "n3": (True, None)}
    assert [(node, kind) for node, kind, _ in last] == [("n2", "failed"), ("n2", "result"), ("n3", "result")]


def test_a_failure_that_a_task_ignores_is_none() -> None:
    of = hearing()
    assert heard(of, line("runner_on_failed", "n1", ignore_errors=True, res={"msg": "no"})) == []


def test_a_role_may_leave_off_by_itself() -> None:
    of = hearing()
    heard(of, stats())
    assert ended(list(of.over(0))) == dict.fromkeys(NODES, (True, None))


@pytest.mark.parametrize(
    ("rc", "lines", "error"),
    [
        (254, [], "motd on n1: not finished within 60 s: stopped waiting; it may still run there"),
        (1, ["ERROR! no such role", ""], "motd on n1: ERROR! no such role"),
        (0, [], "motd on n1: exit status 0"),  # it said nothing of how hosts ended
        (-15, [stats()], "motd on n1: exit status -15"),
    ],
)
def test_a_play_that_does_not_come_to_its_end_has_failed_everywhere(rc: int, lines: list[str], error: str) -> None:
    of = hearing()
    assert ended(heard(of, line("runner_on_ok", "n3", DONE, None), *lines)) == {"n3": (True, None)}
    last = ended(list(of.over(rc)))
    assert last == {"n1": (False, error), "n2": (False, error.replace("n1", "n2"))}


def test_lines_that_are_no_events_harm_nobody() -> None:
    odd = ["", "[]", "[" * 100_000, '{"event_data": 1}', '{"event": 1, "event_data": {"host": ["n1"], "res": 3}}']
    assert heard(hearing(), *odd, line("runner_on_ok", "n9", DONE, None)) == []


def test_why_a_play_did_not_begin_is_its_error_and_not_the_place() -> None:
    of = hearing()
    said = (
        "[WARNING]: first",
        "[ERROR]: couldn't resolve module/action 'x.y.z'.",
        "Origin: main.yml:1:3",
        "  ^ column 3",
    )
    assert heard(of, *said) == []
    assert ended(list(of.over(4)))["n1"] == (False, "motd on n1: couldn't resolve module/action 'x.y.z'.")
