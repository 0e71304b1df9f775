"""What goes over ssh for a task, and how its end is explained."""

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.engines.commands import PROGRAMS, command_line, explain, order, read
from hpcforge.engines.tasks import Bootstrap, Command, NodeProgram, Target

TARGET = Target("n1", "192.0.2.1", "ops", "sudo", Path("/key"), ("ssh-ed25519 AAAA",))
HOSTILE = ["$(touch /tmp/owned)", "a'b", "`id`", "", "new\nline", "-n", "{{ 1 }}", "é"]


def test_as_oneself_every_word_arrives_as_it_is(tmp_path: Path) -> None:
    line = command_line(TARGET, ["printf", "%s\\0", *HOSTILE], None, 10.0)
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=True, cwd=tmp_path)
    assert done.stdout.decode().split("\0")[:-1] == HOSTILE


def test_as_somebody_else_words_are_quoted_for_both_shells() -> None:
    line = command_line(TARGET, ["printf", *HOSTILE], "al; id", 2.5)
    words = shlex.split(line)
    assert words[:7] == ["sudo", "-n", "-H", "-u", "al; id", "--", "/bin/sh"]
    assert words[-len(HOSTILE) - 5 :] == ["timeout", "-k", "5", "2.500", "printf", *HOSTILE]


def test_a_command_is_found_where_the_path_that_sudo_sets_has_none() -> None:
    words = shlex.split(command_line(TARGET, ["printenv", "PATH"], "root", 5.0))
    as_sudo = subprocess.run(
        words[words.index("--") + 1 :], env={"PATH": "/opt/site"}, stdout=subprocess.PIPE, check=True
    )
    assert as_sudo.stdout.decode() == f"/opt/site:{PROGRAMS}\n"


def test_without_sudo_root_steps_down_by_setpriv() -> None:
    target = replace(TARGET, user="root", become="none")
    assert command_line(target, ["id"], "root", 1.0) == "timeout -k 5 1.000 id"
    assert command_line(target, ["id"], "al; id", 1.0).startswith(
        "setpriv --reuid='al; id' --regid=\"$(id -g -- 'al; id')\""
    )


def test_secrets_are_not_in_command_lines() -> None:
    request = {"verb": "converge", "work": [{"files": [{"content_base64": "SECRET"}]}]}
    sent = order(NodeProgram("t", "n1", request, 60.0), TARGET)
    assert "SECRET" not in sent.command
    assert json.loads(read(sent.stdin))["request"] == request
    assert "SECRET" not in order(Command("t", "n1", ("cat",), "SECRET"), TARGET).command


def test_the_node_itself_has_time_to_end_a_command_that_is_late() -> None:
    command = order(Command("t", "n1", ("sleep", "9"), timeout_s=10.0), TARGET)
    assert command.output == "lines"
    assert command.listen_s > command.timeout_s
    assert order(Bootstrap("t", "n1", 10.0), TARGET).output == "events"


@pytest.mark.parametrize(
    ("rc", "stderr", "wall_s", "expected"),
    [
        (0, "noise", 1.0, None),
        (7, "a\nreason\n\n", 1.0, "exit status 7 on n1: reason"),
        (1, "", 1.0, "exit status 1 on n1"),
        (124, "", 60.0, "not finished within 60 s on n1: stopped"),
        (124, "", 3.0, "exit status 124 on n1"),
        (None, "", 65.0, "not finished within 60 s on n1: stopped"),
        (None, "", 1.0, "ended by a signal on n1"),
        (
            1,
            "sudo: a password is required\n",
            0.1,
            "sudo: a password is required (on n1: allow ops sudo without a password)",
        ),
        (1, "sudo: unknown user al\n", 0.1, "exit status 1 on n1: sudo: unknown user al"),
    ],
)
def test_ends_are_explained(rc: int | None, stderr: str, wall_s: float, expected: str | None) -> None:
    assert explain(TARGET, rc, stderr, 60.0, wall_s) == expected
