"""What `status` tells of changes that nodes reverted: only what is still needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.status import _code
from hpcforge.engines.tasks import NodeProgram, Task
from hpcforge.plan.observation import taken_back
from hpcforge.run.status import status
from tests.support.three_nodes import CLUSTER, DESIRED, DONE, ODD, Line, Nodes, difference, observed

REVERTED = taken_back(observed("client")["reverted"][0])


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def saying(*differs: str) -> Callable[[Task], list[Any] | None]:
    """Every node reverted a change of its role once; on w1 these roles differ from what is desired."""

    def odd(task: Task) -> list[Line] | None:
        if not isinstance(task, NodeProgram) or task.request["verb"] != "observe":
            return None
        asked = {one["role"] for one in task.request["wanted"]}
        found = [difference(role) for role in differs if role in asked and task.node == ODD]
        role = "server" if task.node == "head" else "client"
        return [{**observed(role), "differs": found, "armed": [], "at_work": None}, DONE]

    return odd


def troubles(*differs: str) -> dict[str, bool]:
    """Which nodes `status` shows as having reverted a change."""
    found = status(Nodes(saying(*differs)), CLUSTER, 10, print, desired=DESIRED)
    return {node.name: REVERTED in node.troubles for node in found.nodes}


def test_a_reverted_change_is_shown_where_its_role_still_differs() -> None:
    assert troubles("client") == {"head": False, "w1": True, "w2": False}


def test_a_reverted_change_is_forgotten_when_its_role_is_right() -> None:
    assert troubles() == {"head": False, "w1": False, "w2": False}


def test_a_node_that_gives_no_second_answer_still_shows_it() -> None:
    def silent(task: Task) -> list[Line] | None:
        second = task.node == ODD and isinstance(task, NodeProgram) and bool(task.request.get("wanted"))
        return [{"event": "no_root", "user": "ops", "error": "no"}] if second else saying()(task)

    found = status(Nodes(silent), CLUSTER, 10, print, desired=DESIRED)
    assert {node.name: REVERTED in node.troubles for node in found.nodes} == {"head": False, "w1": True, "w2": False}


def test_a_slurm_that_does_not_list_its_nodes_is_noted() -> None:
    def with_answers(answers: dict[str, str]) -> Callable[[Task], list[Any] | None]:
        def answer(task: Task) -> list[Line] | None:
            lines = saying()(task)
            return lines and [{**lines[0], "answers": answers}, *lines[1:]]

        return answer

    desired = replace(DESIRED, scheduler=DESIRED.nodes["head"][0].role)
    without = status(Nodes(with_answers({})), CLUSTER, 10, print, desired=DESIRED)
    assert not any(note.startswith("Slurm on head") for note in without.notes)  # the site installs no Slurm
    assert _code(without) == Exit.DONE
    silent = status(Nodes(with_answers({})), CLUSTER, 10, print, desired=desired)
    assert "Slurm on head does not list its nodes: scontrol on head gives no answer" in silent.notes
    assert _code(silent) == Exit.BELOW
    listed = status(Nodes(with_answers({"slurm_nodes": ""})), CLUSTER, 10, print, desired=desired)
    assert not any(note.startswith("Slurm on head") for note in listed.notes)
    assert _code(listed) == Exit.DONE
