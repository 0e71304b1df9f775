"""The node program on real nodes: systemd, apt, sudo and sshd as a cluster has them."""

import json
import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpcforge.lab import lab as rehearsal
from hpcforge.node import contact
from tests.support.node_program import KILL, Events, Node, of
from tests.support.node_program import converge as request
from tests.support.stand_in_nvml import build

pytestmark = pytest.mark.lab

KEY = secrets.token_hex(1024)
CHRONY_IN_A_CONTAINER = """\
[Unit]
ConditionCapability=
[Service]
ExecStart=
ExecStart=!/usr/sbin/chronyd -x -F 1
"""

# What dpkg has written down of a package when it is cut off in the midst of unpacking it.
SPOIL = """\
import pathlib
status = pathlib.Path("/var/lib/dpkg/status")
head, name, rest = status.read_text().partition("Package: libjansson4\\n")
status.write_text(head + name + rest.replace("install ok installed", "install reinstreq {state}", 1))
"""

Send = Callable[..., Events]


@pytest.fixture
def shell(lab) -> Callable[..., str]:
    return lambda command, node="full", **more: Node(lab, node).shell(command, **more)


@pytest.fixture
def send(lab) -> Send:
    return lambda request, node="full": Node(lab, node).send(request)


@pytest.fixture
def started(lab) -> Callable[[dict[str, Any]], Any]:
    return Node(lab, "full").started


def observe(send: Send, roles: list[dict[str, Any]]) -> Events:
    """Differences from what converge was asked for."""
    wanted = [
        {
            **{key: value for key, value in role.items() if key not in ("needs", "owns", "removes")},
            "files": [{**file, "content_base64": None} for file in role.get("files", ())],
            "units": [{"name": unit["name"]} for unit in role.get("units", ())],
        }
        for role in roles
    ]
    events = send({"verb": "observe", "wanted": wanted})
    assert not of(events, "failed"), events
    [observed] = of(events, "observed")
    return observed["differs"]


def converge(send: Send, roles: list[dict[str, Any]], *phases: str) -> Events:
    restarts = [unit["name"] for role in roles for unit in role.get("units", ()) if "restart" in unit["actions"]]
    requests = {
        "prepare": {"verb": "converge", "phase": "prepare", "work": roles, "restarts": restarts},
        "finish": {"verb": "converge", "phase": "finish", "work": roles},
    }
    return [event for phase in phases or requests for event in send(requests[phase])]


@pytest.fixture
def roles(wanted) -> list[dict[str, Any]]:
    """Three roles with about thirty resources."""
    up = ["enable", "restart"]
    ada = {"name": "ada", "uid": 2001, "home": "/home/ada", "shell": "/bin/bash"}
    return [
        {
            "role": "base",
            "packages": ["less", "rsync"],
            "accounts": [ada, {"name": "tests", "uid": 2002, "home": "/home/tests", "shell": "/bin/sh"}],
            "directories": [wanted.directory("/home/ada/.ssh", "0700", "ada", "ada")],
            "files": [
                wanted.root_file("/etc/apt/apt.conf.d/99early", "// early\n", early=True),
                wanted.root_file("/home/ada/.ssh/authorized_keys", "# none\n", mode="0600", owner="ada", group="ada"),
                *(wanted.root_file(f"/etc/hpcforge-test/{n}.conf", f"number {n}\n" * 50) for n in range(15)),
            ],
        },
        {
            "role": "munge",
            "needs": ["base"],
            "packages": ["munge", "libmunge2"],
            "files": [
                wanted.file("/etc/munge/munge.key", KEY, mode="0400", owner="munge", group="munge", secret="munge_key")
            ],
            "units": [{"name": "munge.service", "actions": up}],
            "checks": [wanted.check("sh", "-c", "munge -n | unmunge", stdout=r"STATUS: +Success", wait_s=10)],
        },
        {
            "role": "time",
            "packages": ["chrony"],
            "files": [wanted.root_file("/etc/systemd/system/chrony.service.d/hpcforge.conf", CHRONY_IN_A_CONTAINER)],
            "units": [{"name": "chrony.service", "actions": up}],
            "checks": [wanted.check("chronyc", "-n", "tracking", stdout="Leap status", wait_s=10)],
        },
    ]


def test_fresh_node_to_nothing_to_do(send, shell, roles):
    everything = observe(send, roles)
    assert [one["role"] for one in everything] == ["base", "munge", "time"]
    assert all(unit["active"] != "active" for one in everything for unit in one["units"])

    prepared = converge(send, roles, "prepare")
    assert (prepared[-1]["event"], prepared[-1]["failed"]) == ("done", [])
    assert shell("systemctl is-active munge chrony", check=False).split() == ["inactive", "inactive"]
    assert shell("ls /usr/sbin/policy-rc.d*", check=False) == ""
    assert {unit["restart_pending"] for one in observe(send, roles) for unit in one["units"]} == {True}

    finished = converge(send, roles, "finish")
    assert (finished[-1]["event"], finished[-1]["failed"]) == ("done", [])
    assert [one["role"] for one in of(finished, "role_done")] == ["base", "munge", "time"]
    assert observe(send, roles) == []

    again = converge(send, roles, "prepare")
    assert again[-1]["changed"] == 0
    assert KEY not in json.dumps([*everything, *prepared, *finished, *again])
    assert shell("sudo stat -c '%a %U' /etc/munge/munge.key /home/ada /var/lib/hpcforge").split("\n")[:3] == [
        "400 munge",
        "750 ada",
        "700 root",
    ]


def test_drift_is_seen_and_mended_alone(send, shell, roles):
    converge(send, roles)
    shell("echo by hand | sudo tee /etc/hpcforge-test/3.conf; sudo chmod 0600 /etc/hpcforge-test/4.conf")
    shell("sudo dpkg --force-depends -r rsync; sudo usermod -s /bin/sh ada; sudo systemctl stop munge")
    base, munge = observe(send, roles)
    assert (base["packages"], base["accounts"][0]["shell"]) == (["rsync"], "/bin/sh")
    assert [(one["path"], one["mode"]) for one in base["files"]] == [
        ("/etc/hpcforge-test/3.conf", "0644"),
        ("/etc/hpcforge-test/4.conf", "0600"),
    ]
    assert base["files"][0]["text"] == "by hand\n"
    assert munge["units"][0]["active"] == "inactive"
    assert "STATUS" not in munge["checks"][0]["detail"]
    for role in roles:
        for unit in role.get("units", ()):
            unit["actions"] = ["start"]
    changed = {(one["kind"], one["name"]) for one in of(converge(send, roles), "changed")}
    assert {
        ("package", "rsync"),
        ("account", "ada"),
        ("file", "/etc/hpcforge-test/3.conf"),
        ("file", "/etc/hpcforge-test/4.conf"),
        ("unit", "munge.service"),
    } <= changed
    assert observe(send, roles) == []


def test_killed_between_file_and_restart(send, shell, started, roles, wanted):
    converge(send, roles)
    slow = wanted.root_file("/etc/hpcforge-test/slow", "x", verify=["sleep", "55"])  # until it is killed
    role = {**roles[1], "files": [wanted.root_file("/etc/default/munge", "# changed\n"), slow]}
    request = {"verb": "converge", "phase": "prepare", "work": [role], "restarts": ["munge.service"]}
    with started(request) as program:
        assert json.loads(program.stdout.readline())["name"] == "/etc/default/munge"
        refused = send({"verb": "record", "role": "other", "digest": "00"})
        assert "another hpcforge run is at work on this node: converge, prepare" in refused[0]["error"]
        assert "started by ops" in refused[0]["error"]
        assert refused[-1]["failed"] == ["other"]
        shell(KILL)
        assert '"done"' not in program.stdout.read()
    [difference] = observe(send, [{**role, "files": []}])
    assert difference["units"] == [
        {"name": "munge.service", "enabled": True, "active": "active", "restart_pending": True}
    ]
    assert of(converge(send, [{**roles[1], "files": []}]), "changed")[0]["detail"] == "restarted"
    assert observe(send, [{**role, "files": []}]) == []


def test_killed_within_dpkg(lab, send, shell, started, roles):
    converge(send, roles)
    shell("sudo dpkg --force-depends --purge chrony munge rsync")
    kill = f"echo ready; until pgrep -x dpkg >/dev/null; do sleep 0.02; done; {KILL} $(pgrep -x 'apt-get|dpkg') || true"
    argv = rehearsal.ssh_argv(lab, "full", ["sh", "-c", kill])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as killer:
        assert killer.stdout
        assert killer.stdout.readline() == "ready\n"
        with started({"verb": "converge", "phase": "prepare", "work": roles}):
            killer.wait(120)
    assert "policy-rc.d" in shell("ls /usr/sbin")
    events = converge(send, roles)
    assert events[-1]["failed"] == []
    assert observe(send, roles) == []
    assert "policy-rc.d" not in shell("ls /usr/sbin")
    assert shell("dpkg --audit") == ""


@pytest.mark.parametrize("state", ["half-installed", "unpacked"])
def test_cut_off_while_it_unpacked_a_package_it_is_unpacked_again(lab, send, shell, state):
    """As dpkg writes it down before it unpacks; here it never came to writing down that it had."""
    shell("sudo apt-get update; sudo apt-get -qq -y install libjansson4; sudo dpkg --force-depends --purge less")
    shell("sudo python3 -", stdin=SPOIL.format(state=state))
    assert "libjansson4" in shell("sudo dpkg --audit || true")
    events = send(request("prepare", [{"role": "base", "packages": ["less"]}]))
    assert (events[-1]["event"], events[-1]["failed"]) == ("done", [])
    assert shell("dpkg --audit") == ""
    assert "ok installed" in shell("dpkg-query -W -f '${Status}' less")


def test_dpkg_lock_is_waited_for_and_its_holder_named(lab, shell, started):
    shell("sudo apt-get update; sudo dpkg --force-depends --purge less")
    hold = "f = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(f, 2); print(1, flush=True); sys.stdin.read()"
    argv = rehearsal.ssh_argv(lab, "full", ["sudo", "python3", "-c", f"import fcntl, sys; {hold}"])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == "1\n"
        work = [{"role": "base", "packages": ["less"]}]
        with started({"verb": "converge", "phase": "prepare", "work": work}) as program:
            first = json.loads(program.stdout.readline())
            holder.stdin.close()
            assert "held by process" in first["detail"]
            events = [json.loads(line) for line in program.stdout]
    assert (events[-1]["event"], events[-1]["changed"], events[-1]["failed"]) == ("done", 1, [])


def test_failures_say_why_and_stop_only_who_needs_them(send, shell, wanted):
    unit = "[Unit]\nConditionPathExists=/nowhere\n[Service]\nExecStart=/bin/sleep 1000\n"
    crash = "[Service]\nExecStart=/bin/sh -c 'echo my last words; exit 7'\n[Install]\nWantedBy=multi-user.target\n"
    start = {"actions": ["start"]}
    shell("sudo useradd -u 2100 taken")
    work = [
        {"role": "no_package", "packages": ["no-such-package", "less"]},
        {"role": "no_owner", "files": [wanted.root_file("/etc/x", "", owner="nosuchuser")]},
        {"role": "uid", "accounts": [{"name": "bob", "uid": 2100, "home": "/home/bob", "shell": "/bin/sh"}]},
        {"role": "renumber", "accounts": [{"name": "taken", "uid": 2101, "home": "/home/taken", "shell": "/bin/sh"}]},
        {
            "role": "units",
            "files": [
                wanted.root_file("/etc/systemd/system/unmet.service", unit),
                wanted.root_file("/etc/systemd/system/crash.service", crash),
            ],
        },
        {"role": "after", "needs": ["no_package"], "files": [wanted.root_file("/etc/after", "")]},
    ]
    errors = {one["role"]: one["error"] for one in of(converge(send, work, "prepare"), "failed")}
    assert set(errors) == {"no_package", "no_owner", "uid", "renumber"}
    assert "no package source of this node has a package 'no-such-package'" in errors["no_package"]
    assert "user 'nosuchuser' does not exist" in errors["no_owner"]
    assert "uid and gid 2100 for 'bob' belong to 'taken'" in errors["uid"]
    assert "has uid 2100" in errors["renumber"]
    assert "installed" in shell("dpkg-query -W -f '${Status}' less")

    work = [
        {"role": "unmet", "units": [{"name": "unmet.service", **start}]},
        {"role": "crash", "units": [{"name": "crash.service", "actions": ["enable", "start"]}]},
        {"role": "absent", "units": [{"name": "absent.service", **start}]},
        {"role": "unmet_too", "needs": ["unmet"], "checks": [wanted.check("true")]},
        {"role": "free", "checks": [wanted.check("true")]},
    ]
    events = converge(send, work, "finish")
    errors = {one["role"]: one["error"] for one in of(events, "failed")}
    assert set(errors) == {"unmet", "crash", "absent"}
    assert "ConditionPathExists=/nowhere" in errors["unmet"]
    assert "my last words" in errors["crash"]
    assert "absent.service" in errors["absent"]
    assert of(events, "skipped") == [{"event": "skipped", "role": "unmet_too", "because": "unmet"}]
    done = [one["role"] for one in of(events, "role_done")]
    assert [role for role in done if role != "crash"] == ["free"]  # that one may run for a moment


def test_damaged_memory_makes_everything_due(send, shell, roles):
    converge(send, roles)
    send({"verb": "record", "role": "munge", "digest": "d1"})
    opaque = {"digest": "d1"}
    wanted = [roles[0], {**roles[1], "opaque": opaque}]
    assert observe(send, wanted) == []
    shell("sudo truncate -s -20 /var/lib/hpcforge/receipt.json")
    [difference] = observe(send, wanted)
    assert difference["opaque"] == {"digest": None}
    assert difference["units"][0]["restart_pending"]
    converge(send, roles)
    send({"verb": "record", "role": "munge", "digest": "d1"})
    assert observe(send, wanted) == []
    assert "damaged" in shell("sudo ls /var/lib/hpcforge")


def test_node_without_python_whose_package_lists_a_power_cut_emptied(send, shell):
    [answer] = send({"verb": "observe", "wanted": []}, node="bare")
    assert (answer["event"], answer["os_id"], answer["hostname"]) == ("no_python", "debian", "bare")
    shell("sudo apt-get update -q; sudo sh -c 'truncate -s 0 /var/lib/apt/lists/*_Packages'", node="bare")
    lines = [json.loads(line) for line in shell("sh", node="bare", stdin=contact.bootstrap_script()).splitlines()]
    assert [line["event"] for line in lines if line["event"] != "progress"] == ["changed", "done"]
    assert "fetched all package lists again" in [line.get("detail") for line in lines]
    assert lines[-2]["detail"].startswith("Python 3.")
    [observed] = of(send({"verb": "observe", "wanted": []}, node="bare"), "observed")
    assert observed["facts"]["hostname"] == "bare"
    again = shell("sh", node="bare", stdin=contact.bootstrap_script())
    assert json.loads(again)["changed"] == 0


def test_a_node_with_a_driver_tells_of_its_gpus(shell, send, tmp_path: Path):
    """The linker of the node knows a library that stands in for NVML, of which one GPU of eight is lost."""
    place = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    decode = "import sys; sys.stdout.buffer.write(bytes.fromhex(sys.stdin.read()))"
    request = {"verb": "observe", "wanted": [], "surplus": True}

    def nvml() -> Any:
        [seen] = of(send(request), "observed")
        return seen["facts"]["nvml"]

    assert nvml() is None
    try:
        encoded = build("seven", tmp_path).read_bytes().hex()
        shell(f"python3 -c '{decode}' | sudo tee {place} > /dev/null && sudo ldconfig", stdin=encoded)
        told = nvml()
    finally:
        shell(f"sudo rm -f {place} && sudo ldconfig")
    assert [one["index"] for one in told["gpus"] if one["error"]] == [5]
    assert nvml() is None
