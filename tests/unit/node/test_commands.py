"""Programs on a node, really run: bounded in time and output."""

from __future__ import annotations

import signal

import pytest

from hpcforge.node import commands
from hpcforge.node.events import NodeError


def test_output_and_status_are_those_of_the_program() -> None:
    outcome = commands.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
    assert outcome == (3, "out\n", "err\n", False, False)
    assert commands.run(["sh", "-c", "echo out; echo err >&2"], 10, merge=True)[:3] == (0, "out\nerr\n", "")


def test_a_program_has_a_known_environment_and_nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_CALLER", "x")
    variables = dict(line.split("=", 1) for line in commands.run(["env"], 10).stdout.splitlines())
    assert variables == commands.ENVIRONMENT
    assert commands.run(["cat"], 10).stdout == ""


def test_a_program_that_is_late_is_killed_with_what_it_started() -> None:
    outcome = commands.run(["sh", "-c", "echo begun; sleep 60 & wait"], 0.5)
    assert (outcome.rc, outcome.timed_out, outcome.stdout) == (-signal.SIGKILL, True, "begun\n")


def test_a_daemon_that_keeps_the_pipe_does_not_hold_up() -> None:
    outcome = commands.run(["sh", "-c", "sleep 5 & echo out"], 4)
    assert (outcome.rc, outcome.timed_out, outcome.stdout) == (0, False, "out\n")


@pytest.mark.parametrize(("more", "cut"), [(0, False), (1, True)])
def test_output_beyond_the_limit_is_dropped_and_missed(more: int, cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUTPUT_LIMIT", 1000)
    outcome = commands.run(["sh", "-c", f"head -c {1000 + more} /dev/zero | tr '\\0' x"], 10)
    assert (len(outcome.stdout), outcome.cut) == (1000, cut)
    if cut:
        with pytest.raises(NodeError):
            outcome.whole("x")
    else:
        assert outcome.whole("x") == outcome.stdout


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["sh", "-c", "echo no room >&2; exit 2"], "exit status 2: no room"),
        (["sh", "-c", "echo printed; exit 2"], "exit status 2: printed"),
        (["sh", "-c", "exit 2"], "exit status 2"),
        (["hpcforge-no-such-program"], "program 'hpcforge-no-such-program' does not exist"),
        (["/etc"], "'/etc'"),  # which is no program
    ],
)
def test_a_failure_is_told_in_the_words_of_the_program(argv: list[str], text: str) -> None:
    with pytest.raises(NodeError) as failed:
        commands.succeed(argv, 10)
    assert text in str(failed.value)


def test_what_succeeds_gives_its_output() -> None:
    assert commands.succeed(["echo", "a b"], 10) == "a b\n"
