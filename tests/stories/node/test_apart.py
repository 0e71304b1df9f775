"""Work that outlives its connection, on a real node: cut off, logged out, killed, sent twice, stopped, waited for."""

import json
import secrets
import subprocess

import pytest

from hpcforge.lab import lab as labs
from tests.support.node_program import KILL, Node, converge, details, of, run

pytestmark = pytest.mark.lab
GO = "/tmp/go"


def waiting(wanted, **more):
    """Work that ends when GO is there, after it has said that it waits."""
    check = wanted.check("test", "-e", GO, wait_s=60)
    return converge("finish", [{"role": "slow", "checks": [check]}], **more)


@pytest.fixture(autouse=True)
def no_go(node: Node) -> None:
    node.shell(f"rm -f {GO}")


def begun(program) -> dict:
    """The first event, of work that goes on: nothing of it has failed so far."""
    event = json.loads(program.stdout.readline())
    assert "detail" in event, event
    return event


def test_the_link_is_cut_and_the_user_logged_out(node, wanted):
    request = waiting(wanted)
    with node.started(request) as program:
        assert begun(program)["detail"] == "check: check"
        at_work = node.observed()["at_work"]
        program.kill()
    assert (at_work["who"], at_work["number"], at_work["task"]) == (
        "ann@operator",
        request["run"]["number"],
        request["task"],
    )
    assert at_work["unit"] == f"hpcforge-run-{request['task']}.scope"
    assert "started" not in node.shell(f"systemctl is-active '{at_work['unit']}'")
    node.shell("sudo loginctl kill-user -s KILL ops", check=False)  # this connection's shell, too
    assert node.observed()["at_work"] == at_work
    node.shell(f"touch {GO}")
    after = node.send({"verb": "attach", "task": request["task"], "after": 1})
    assert [one["event"] for one in after] == ["role_done", "done"]
    assert after[-1]["failed"] == []
    whole = node.send({"verb": "attach", "task": request["task"], "after": 0})
    assert [one["event"] for one in whole] == ["progress", "role_done", "done"]
    node.until(f"! systemctl is-active -q '{at_work['unit']}'")


def test_who_attaches_hears_the_rest_as_it_comes(node, wanted):
    request = waiting(wanted)
    with node.started(request) as first:
        begun(first)
        with node.started({"verb": "attach", "task": request["task"], "after": 0}) as second:
            assert begun(second)["event"] == "progress"
            node.shell(f"touch {GO}")
            for program in (first, second):
                assert [json.loads(line)["event"] for line in program.stdout] == ["role_done", "done"]


def test_a_request_that_is_sent_again_is_not_done_again(node, wanted):
    request = converge("prepare", [{"role": "once", "files": [wanted.root_file("/etc/once", "x")]}])
    first = node.send(request)
    assert details(first) == {"/etc/once": "created"}
    node.shell("sudo rm /etc/once")
    assert node.send(request) == first
    assert node.shell("ls /etc/once", check=False) == ""


def test_a_task_that_is_at_work_is_not_mistaken_for_another(node, wanted):
    request = waiting(wanted)
    with node.started(request) as program:
        begun(program)
        [failed, done] = node.send({**request, "work": [{"role": "other"}]})
        assert "is running here with another request" in failed["error"]
        assert done["failed"] == ["other"]
        refused = node.send(converge("finish", [{"role": "other"}]))
        assert f"started by ann@operator, run {request['run']['number']}" in refused[0]["error"]
        node.shell(f"touch {GO}")


def test_it_is_killed(node, wanted):
    request = waiting(wanted)
    with node.started(request) as program:
        begun(program)
        node.shell(KILL)
        here = [json.loads(line) for line in program.stdout]
    there = node.send({"verb": "attach", "task": request["task"], "after": 1})
    for failed, done in (here, there):
        assert (failed["role"], failed["error"][:35]) == (None, "the task ended without an answer: i")
        assert (done["event"], done["failed"]) == ("done", ["slow"])
    assert node.observed()["at_work"] is None


def test_a_task_that_is_not_known_is_said(node):
    failed, done = node.send({"verb": "attach", "task": "never:begun", "after": 0})
    assert (failed["role"], done["event"]) == (None, "done")
    assert "task 'never:begun' is unknown here" in failed["error"]
    failed, _ = node.send({"verb": "attach", "task": "../../etc/shadow", "after": 0})
    assert "is not a task id" in failed["error"]


def test_it_is_told_to_stop(node, wanted):
    later = {"role": "later", "files": [wanted.root_file("/etc/later", "x")]}
    request = waiting(wanted)
    with node.started(request) as program:
        begun(program)
        assert node.send({"verb": "stop", "task": "another"})[-1]["event"] == "done"
        assert node.observed()["at_work"]["task"] == request["task"]
        assert not of(node.send({"verb": "stop", "task": request["task"], "timeout_s": 20}), "failed")
        assert node.observed()["at_work"] is None
        failed = of([json.loads(line) for line in program.stdout], "failed")
        assert "stopped by SIGTERM" in failed[0]["error"]
    assert details(node.send(converge("prepare", [later]))) == {"/etc/later": "created"}


def test_packages_are_let_finish_when_it_is_told_to_stop(node, wanted):
    node.shell("sudo apt-get update -q")
    work = [
        {"role": "first", "packages": ["libpam-cap"]},
        {"role": "second", "files": [wanted.root_file("/etc/second", "x")]},
    ]
    hold = "f = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(f, 2); print(1, flush=True); sys.stdin.read()"
    argv = labs.ssh_argv(node.lab, node.name, ["sudo", "python3", "-c", f"import fcntl, sys; {hold}"])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "1\n"
        with node.started(converge("prepare", work)) as program:
            assert "held by process" in begun(program)["detail"]
            with node.started({"verb": "stop"}) as stops:
                assert "stopping: " in begun(stops)["detail"]
                holder.stdin.close()
                assert not of([json.loads(line) for line in stops.stdout], "failed")
            events = [json.loads(line) for line in program.stdout]
    assert details(events) == {"libpam-cap": "installed"}
    assert {one["role"]: one["error"] for one in of(events, "failed")} == {
        "second": "stopped by SIGTERM before its next resource"
    }
    assert node.shell("sudo dpkg --audit") == ""


def test_waiting_for_what_is_at_work(node, wanted):
    assert [one["event"] for one in node.send({"verb": "wait", "timeout_s": 5})] == ["done"]
    request = waiting(wanted)
    with node.started(request) as program:
        begun(program)
        events = node.send({"verb": "wait", "timeout_s": 0.5})
        assert "still active on this node: converge, finish since" in of(events, "failed")[0]["error"]
        with node.started({"verb": "wait", "timeout_s": 30}) as waits:
            assert "waiting for another hpcforge run" in begun(waits)["detail"]
            node.shell(f"touch {GO}")
            assert [json.loads(line)["event"] for line in waits.stdout] == ["done"]
    assert node.observed()["at_work"] is None


def test_no_secret_is_left_anywhere_but_in_its_file(node, wanted):
    secret = secrets.token_hex(32)
    file = wanted.root_file("/etc/secret", secret, mode="0400", secret="munge_key")
    request = converge("prepare", [{"role": "one", "files": [file], "checks": [wanted.check("true")]}])
    slow = {"role": "two", "files": [wanted.root_file(f"/etc/many/{n}", "x") for n in range(500)]}
    with node.started({**request, "work": [*request["work"], slow]}) as program:
        begun(program)
        said = node.shell("sudo sh -c 'cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ' 2>/dev/null", check=False)
        events = program.stdout.read()
    assert secret not in said + events
    found = node.shell("sudo grep -rlF -f - /run /var/lib /var/log /tmp /etc 2>/dev/null", stdin=secret, check=False)
    assert found.split() == ["/etc/secret"]
    rights = node.shell("sudo sh -c \"stat -c '%a %U' /run/hpcforge /run/hpcforge/*\"").split("\n")
    assert rights[:2] == ["700 root", "600 root"]


def test_without_systemd_to_ask_it_is_a_session_of_its_own(node, wanted):
    node.shell("sudo mv /usr/bin/busctl /usr/bin/busctl.away")
    try:
        request = waiting(wanted)
        with node.started(request) as program:
            begun(program)
            assert node.observed()["at_work"]["unit"] is None
            program.kill()
        node.shell(f"touch {GO}")
        assert node.send({"verb": "attach", "task": request["task"], "after": 1})[-1]["failed"] == []
    finally:
        node.shell("sudo mv /usr/bin/busctl.away /usr/bin/busctl")


def test_old_spools_go(node, wanted):
    node.shell("cd /run; sudo touch -d '2 days ago' hpcforge/old.jsonl; sudo touch $(seq -f hpcforge/t%g.jsonl 40)")
    request = {"verb": "record", "role": "one", "digest": "00", "run": run(), "task": "record:one"}
    assert not of(node.send(request), "failed")
    left = node.shell("sudo ls /run/hpcforge").split()
    assert "old.jsonl" not in left
    assert len(left) <= 21


def test_two_at_once_are_never_done(node, wanted):
    """Eight requests of one run, all at the same time: every change is made by one of them, and none is made twice."""
    this = run()
    requests = [
        converge(
            "prepare", [{"role": "r", "files": [wanted.root_file(f"/etc/at-once/{n}", "x")]}], run=this, task=f"at:{n}"
        )
        for n in range(8)
    ]
    programs = [node.started(request) for request in requests]
    opened = [program.__enter__() for program in programs]
    events = [[json.loads(line) for line in program.stdout] for program in opened]
    for program in programs:
        program.__exit__(None, None, None)
    done = [n for n, one in enumerate(events) if not of(one, "failed")]
    assert done
    there = node.shell("ls /etc/at-once").split()
    assert sorted(there) == sorted(str(n) for n in done)
    for n, one in enumerate(events):
        if n not in done:
            assert "another hpcforge run is at work" in of(one, "failed")[0]["error"]
