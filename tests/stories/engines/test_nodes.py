"""Commands and the node program on real nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.engines import Engines
from hpcforge.engines.tasks import Bootstrap, Command, EngineError, NodeProgram, Target
from tests.stories.engines.conftest import Nodes, finish
from tests.support.ssh_agent import ssh_agent

pytestmark = pytest.mark.lab

OBSERVE = {"verb": "observe", "wanted": [], "reads": ["/etc/hostname"]}


def test_the_node_program_answers_on_every_node(engines: Engines) -> None:
    seen = finish(engines, *(NodeProgram(f"t-{node}", node, OBSERVE, 60.0) for node in ("n1", "n2")))
    for node in ("n1", "n2"):
        events = {event.kind: event.data for event in seen[f"t-{node}"]}
        assert events["result"]["ok"], events["result"]
        assert events["observed"]["reads"] == {"/etc/hostname": f"{node}\n"}


def test_a_request_that_fails_as_a_whole_is_not_ok(engines: Engines) -> None:
    answer = engines.run(NodeProgram("t", "n1", {"verb": "no such"}, 60.0)).data
    assert not answer["ok"]
    assert "no such" in answer["error"]
    assert not answer["unreachable"]


def test_bootstrap_of_a_node_that_has_python_changes_nothing(engines: Engines) -> None:
    answer = engines.run(Bootstrap("t", "n1", 60.0)).data
    assert (answer["ok"], answer["changed"]) == (True, False)


def test_words_input_output_and_exit_status(engines: Engines) -> None:
    words = ("sh", "-c", 'printf "%s\\n" "$@"; cat; echo why >&2; exit 7', "sh", "a b", "$(id)", "it's", "")
    seen = finish(engines, Command("t", "n1", words, stdin="in 1\nin 2 é"))["t"]
    lines = ["a b", "$(id)", "it's", "", "in 1", "in 2 é"]
    assert [event.data["line"] for event in seen[:-1]] == lines
    answer = seen[-1].data
    assert (answer["ok"], answer["rc"], answer["stderr"]) == (False, 7, "why\n")
    assert answer["stdout"] == "".join(f"{line}\n" for line in lines)
    assert answer["error"] == "exit status 7 on n1: why"


@pytest.mark.parametrize(
    ("user", "expected"),
    [(None, "ops /home/ops /home/ops"), ("root", "root /root /root"), ("nobody", "nobody / /nonexistent")],
)
def test_commands_run_as_the_user_at_home(engines: Engines, user: str | None, expected: str) -> None:
    answer = engines.run(Command("t", "n1", ("sh", "-c", 'echo "$(id -un) $(pwd) $HOME"'), user=user)).data
    assert answer["stdout"].strip() == expected


def test_a_command_that_is_late_leaves_nothing_behind(engines: Engines, nodes: Nodes) -> None:
    argv = ("sh", "-c", "trap '' TERM; sleep 8151; sleep 8152")
    answer = engines.run(Command("t", "n1", argv, user="root", timeout_s=1.0)).data
    assert answer["error"] == "not finished within 1 s on n1: stopped"
    gone = "for i in $(seq 200); do pgrep -f 'sleep 815[12]' >/dev/null || exit 0; sleep 0.1; done; exit 1"
    nodes.inside("n1", gone)  # a moment after it was killed


def test_a_daemon_that_keeps_the_output_open_holds_nobody_up(engines: Engines) -> None:
    start = time.monotonic()
    answer = engines.run(Command("t", "n1", ("sh", "-c", "sleep 20 & echo started"))).data
    assert (answer["ok"], answer["stdout"]) == (True, "started\n")
    assert time.monotonic() - start < 10


def test_a_flood_is_stopped_and_the_connection_stays(engines: Engines) -> None:
    answer = engines.run(Command("t", "n1", ("cat", "/dev/zero"), timeout_s=30.0)).data
    assert "64 MiB" in answer["error"]
    assert engines.run(Command("t", "n1", ("true",))).data["ok"]


def test_much_input_goes_through_and_unread_input_is_no_error(engines: Engines) -> None:
    much = "x" * 99 + "\n"
    counted = engines.run(Command("t", "n1", ("wc", "-c"), stdin=much * 50_000)).data
    assert counted["stdout"].strip() == "5000000"
    assert engines.run(Command("t", "n1", ("true",), stdin=much * 50_000)).data["ok"]


def test_tasks_of_a_node_run_in_order_and_nodes_side_by_side(engines: Engines) -> None:
    finish(engines, *(Command(f"warm-{node}", node, ("true",)) for node in ("n1", "n2")))
    clock = "date +%s.%N"  # one for both nodes: they share this machine's
    slow = [Command(f"slow-{node}", node, ("sh", "-c", f"{clock}; sleep 6; {clock}")) for node in ("n1", "n2")]
    then = [Command(f"then-{node}", node, ("sh", "-c", clock)) for node in ("n1", "n2")]
    seen = finish(engines, *slow, *then)
    said = {task: [float(event.data["line"]) for event in events[:-1]] for task, events in seen.items()}
    assert max(said["slow-n1"][0], said["slow-n2"][0]) < min(said["slow-n1"][1], said["slow-n2"][1])
    assert all(said[f"then-{node}"][0] >= said[f"slow-{node}"][1] for node in ("n1", "n2"))


def test_events_of_others_are_kept_while_one_is_waited_for(engines: Engines) -> None:
    engines.start(Command("other", "n2", ("echo", "hello")))
    engines.run(Command("waited", "n1", ("sleep", "1")))
    events = [engines.next(30.0), engines.next(30.0)]
    assert [(event.task, event.kind) for event in events if event] == [("other", "line"), ("other", "result")]
    assert engines.next(0.1) is None


def test_unknown_nodes_and_ids_in_use_are_refused(engines: Engines) -> None:
    with pytest.raises(EngineError, match="no such node"):
        engines.start(Command("t", "n9", ("true",)))
    engines.start(Command("t", "n1", ("sleep", "1")))
    with pytest.raises(EngineError, match="in use"):
        engines.start(Command("t", "n1", ("true",)))


def test_nodes_that_cannot_be_reached_say_why_and_hold_nobody_up(nodes: Nodes, tmp_path: Path) -> None:
    good, other = nodes.targets["n1"], nodes.targets["n2"]
    network = nodes.lab.gateway.rsplit(".", 1)[0]
    bad = {
        "no-route": replace(good, name="no-route", address=f"{network}.250"),
        "refused": replace(good, name="refused", address=nodes.lab.gateway),
        "host-key": replace(good, name="host-key", host_keys=other.host_keys),
        "no-host-key": replace(good, name="no-host-key", host_keys=()),
        "login": replace(good, name="login", user="nobody"),
    }
    if not _refuses(nodes.lab.gateway):
        del bad["refused"]  # this host has an sshd of its own
    tasks = [Command(name, name, ("true",)) for name in bad] + [Command("good", "n1", ("true",))]
    with Engines([good, other, *bad.values()], tmp_path, tmp_path) as engines:
        engines.run(Command("warm", "n2", ("true",)))  # its imports are not what is looked at
        for task in tasks:
            engines.start(task)
        answers: dict[str, dict[str, object]] = {}
        while len(answers) < len(tasks):
            event = engines.next(30.0)
            assert event is not None
            answers[event.task] = event.data
            if event.task == "good":
                assert event.data["ok"]
                assert "no-route" not in answers  # the absent node takes at least 3 s to find out
    for name in bad:
        assert (answers[name]["unreachable"], answers[name]["reason"]) == (True, name), answers[name]
        # What is missing in the inventory is told alike of all nodes, so that they are one line.
        assert ("host_keys" if name == "no-host-key" else name) in str(answers[name]["error"])


def test_connections_are_made_so_many_at_once(nodes: Nodes, tmp_path: Path) -> None:
    network = nodes.lab.gateway.rsplit(".", 1)[0]
    absent = [replace(nodes.targets["n1"], name=f"a{i}", address=f"{network}.{i}") for i in range(100, 200)]
    attempts = ["ss", "-Htn", "state", "syn-sent", f"dst {network}.0/24"]
    with Engines(absent, tmp_path, tmp_path) as engines:
        for target in absent:
            engines.start(Command(target.name, target.name, ("true",)))
        seen, ended = [], 0
        while ended < len(absent):
            seen.append(len(subprocess.run(attempts, capture_output=True, check=True).stdout.splitlines()))
            event = engines.next(0.2)
            ended += event is not None
    assert 32 < max(seen) <= 64


def _refuses(address: str) -> bool:
    return (
        subprocess.run(
            ["sh", "-c", f"ss -Hltn 'sport = :22' | grep -qE '{address}|0.0.0.0|\\*'"], check=False
        ).returncode
        != 0
    )


def test_without_sudo_root_work_is_refused_in_words(nodes: Nodes, tmp_path: Path) -> None:
    plain = replace(nodes.targets["n1"], become="none")
    with Engines([plain], tmp_path, tmp_path) as engines:
        answer = engines.run(NodeProgram("t", "n1", OBSERVE, 60.0)).data
    assert not answer["ok"]
    assert "ops cannot become root" in answer["error"]


def test_closing_is_quick_and_leaves_no_process(nodes: Nodes, tmp_path: Path) -> None:
    with Engines(nodes.targets.values(), tmp_path, tmp_path) as engines:
        engines.start(Command("t", "n1", ("sleep", "30")))
        assert engines.next(1.0) is None
        start = time.monotonic()
    assert time.monotonic() - start < 10
    assert _children_of(os.getpid()) == []


def test_the_child_does_not_outlive_who_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, signal, pathlib\n"
        "from hpcforge.engines import Engines\n"
        "path = pathlib.Path('.')\n"
        "with Engines([], path, path) as engines:\n"
        "    print(engines._process.popen.pid, flush=True)\n"
        "    signal.pause()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    time.sleep(1.0)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 30
    while _lives(child):
        assert time.monotonic() < deadline, "the child is still there"
        time.sleep(0.1)


def _lives(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_child_that_dies_fails_what_it_had_and_what_comes(nodes: Nodes, tmp_path: Path) -> None:
    with Engines(nodes.targets.values(), tmp_path, tmp_path) as engines:
        engines.start(Command("running", "n1", ("sleep", "5")))
        assert engines.next(1.0) is None
        assert engines._process is not None
        engines._process.popen.kill()
        for task in ("running", "later"):
            if task == "later":
                engines.start(Command(task, "n1", ("true",)))
            event = engines.next(30.0)
            assert event is not None
            assert (event.task, event.kind, event.data["ok"]) == (task, "result", False)
            assert "the engine's process ended" in event.data["error"]


def _children_of(pid: int) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and "engines.child" in (path.parent / "cmdline").read_text():
            found.append(path.parent.name)
    return found


def test_an_agent_is_used_where_no_key_is_named(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = tmp_path / "agent"
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    target: Target = replace(nodes.targets["n1"], key=None)
    with ssh_agent(socket, nodes.lab.key), Engines([target], tmp_path / "work", tmp_path) as engines:
        answer = engines.run(Command("t", "n1", ("true",))).data
    assert answer["ok"], answer
