"""Programs that edit users and groups."""

from __future__ import annotations

import os

import pytest

from hpcforge.node import unix
from hpcforge.node.commands import CommandResult
from hpcforge.node.events import LaterError, NodeError


@pytest.mark.parametrize(("group", "number"), [("root", 0), ("hpcforge-no-such-group", None)])
def test_the_number_of_a_group(group: str, number: int | None) -> None:
    assert unix.gid(group) == number


@pytest.mark.skipif(os.geteuid() != 0, reason="groupadd needs root to get as far")
def test_a_program_that_refuses_is_quoted() -> None:
    with pytest.raises(NodeError) as refused:
        unix.edit(["groupadd", "--gid", "0", "--", "root"])
    assert "groupadd root: " in str(refused.value)


@pytest.mark.parametrize(
    ("argv", "rc", "error"),
    [(["usermod", "ada"], 8, LaterError), (["userdel", "ada"], 8, NodeError), (["usermod", "ada"], 6, NodeError)],
)
def test_a_user_who_is_at_work_is_changed_later(
    argv: list[str], rc: int, error: type[NodeError], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = CommandResult(rc, "", "user ada is currently used by process 7", False)
    monkeypatch.setattr(unix.commands, "run", lambda *_: outcome)
    with pytest.raises(NodeError) as refused:
        unix.edit(argv)
    assert type(refused.value) is error


def test_a_file_that_another_program_edits_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter(
        [CommandResult(1, "", "cannot lock /etc/passwd; try again later.", False), CommandResult(0, "", "", False)]
    )
    monkeypatch.setattr(unix.commands, "run", lambda *_: next(outcomes))
    monkeypatch.setattr(unix.time, "sleep", lambda _: None)
    unix.edit(["useradd", "ada"])
    assert next(outcomes, None) is None
