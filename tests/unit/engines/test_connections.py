"""One node's connection: opened ahead of its first task, or by it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpcforge.engines import Engines, connections
from hpcforge.engines.connections import Connection
from hpcforge.engines.host_keys import UnreachableError
from hpcforge.engines.tasks import Command, Target

NODE = Target("n01", "127.0.0.3", "ops", "sudo")


class Route:
    """Opens a connection, or fails with the next of these errors."""

    def __init__(self, *errors: str) -> None:
        self.errors, self.attempts = list(errors), 0

    def connect(self, _target: Target) -> Any:
        self.attempts += 1
        if self.errors:
            raise UnreachableError("refused", self.errors.pop(0))
        return SimpleNamespace(close=lambda: None)


@pytest.fixture(autouse=True)
def _alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "alive", lambda _client: True)


def connection(route: Route) -> Connection:
    plain: Any = route
    return Connection(plain, NODE)


def test_a_connection_opened_ahead_is_used() -> None:
    route = Route()
    link = connection(route)
    link.open_ahead()
    assert link.alive
    assert link.client() is link.client()
    assert route.attempts == 1


def test_a_failure_ahead_is_the_first_tasks_and_no_later_one() -> None:
    route = Route("first")
    link = connection(route)
    link.open_ahead()
    with pytest.raises(UnreachableError, match="first"):
        link.client()
    assert route.attempts == 1
    link.client()
    assert route.attempts == 2


def test_an_old_failure_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    route = Route("first")
    link = connection(route)
    link.open_ahead()
    now_s = connections.time.monotonic()
    monkeypatch.setattr(connections.time, "monotonic", lambda: now_s + 60)
    link.client()
    assert route.attempts == 2


def test_a_new_connection_is_tried_after_a_failure_ahead() -> None:
    route = Route("first")
    link = connection(route)
    link.open_ahead()
    link.close()
    link.client()
    assert route.attempts == 2


def test_the_child_process_answers_with_the_failure(tmp_path: Path) -> None:
    """The node has no host key here, so it is refused before a packet is sent."""
    with Engines([NODE], tmp_path / "work", tmp_path) as engines:
        engines.connect(["n01"])
        for number in range(2):
            answer = engines.run(Command(f"command:{number}", "n01", ("true",), timeout_s=5.0))
            assert (answer.data["ok"], answer.data["reason"]) == (False, "no-host-key")
