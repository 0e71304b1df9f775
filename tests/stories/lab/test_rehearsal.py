"""A lab of two real nodes, from nothing to nothing. The tests build on each other, in order."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from hpcforge.lab import lab as labs
from tests.stories.lab.conftest import NODES, Rehearsal, inotify_limit, left, limit_without_labs

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]


@pytest.fixture(scope="module")
def inotify_before() -> int | None:
    return limit_without_labs()


def test_up_starts_every_node(rehearsal: Rehearsal, inotify_before: int | None) -> None:
    lab = rehearsal.up()
    assert {line.split(":")[0] for line in rehearsal.said} >= {"head", "w01"}
    assert [node.state for node in labs.status(rehearsal.name).nodes] == ["running", "running"]
    assert labs.load(rehearsal.name) == lab
    assert inotify_limit() >= 4096 or inotify_before is None


def test_host_keys_and_machine_ids_differ(rehearsal: Rehearsal) -> None:
    lab = rehearsal.lab
    assert lab is not None
    inventory = yaml.safe_load(lab.inventory.read_text())
    keys = {name: node["host_keys"][0] for name, node in inventory["nodes"].items()}
    assert len(set(keys.values())) == 2
    for name, key in keys.items():
        assert key in rehearsal.ssh(name, "cat", "/etc/ssh/ssh_host_ed25519_key.pub").stdout
    assert len({rehearsal.ssh(name, "cat", "/etc/machine-id").stdout for name in keys}) == 2
    assert lab.key.stat().st_mode & 0o777 == 0o600
    assert lab.directory.stat().st_mode & 0o777 == 0o700


def test_login_is_an_ordinary_user_with_sudo(rehearsal: Rehearsal) -> None:
    for node in ("head", "w01"):
        assert rehearsal.ssh(node, "id", "-un").stdout == "ops\n"
        assert rehearsal.ssh(node, "sudo", "-n", "id", "-u").stdout == "0\n"
        assert rehearsal.ssh(node, "hostname").stdout == f"{node}\n"
        assert rehearsal.ssh(node, "systemctl", "is-system-running", "--wait").stdout == "running\n"


def test_words_of_a_command_arrive_as_given(rehearsal: Rehearsal) -> None:
    assert rehearsal.ssh("head", "printf", "%s|", "a b", "$HOME", "'").stdout == "a b|$HOME|'|"


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["sudo", "sh", "-c", "'echo x'"], "x\n"),
        (["echo", "'a", "b'", "$HOME"], "a b /home/ops\n"),
        (["printf '%s|' 'a  b' c; echo done"], "a  b|c|done\n"),
    ],
)
def test_rehearse_ssh_passes_words_on_as_ssh_does(rehearsal: Rehearsal, words: list[str], printed: str) -> None:
    command = [sys.executable, "-m", "hpcforge", "rehearse", "ssh", "--lab", rehearsal.name, "head", "--", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")
    assert rehearsal.lab is not None
    by_ssh = subprocess.run([*labs.ssh_argv(rehearsal.lab, "head"), *words], capture_output=True, text=True, check=True)
    assert by_ssh.stdout == printed


def test_a_changed_host_key_is_refused(rehearsal: Rehearsal, tmp_path: Path) -> None:
    lab = rehearsal.lab
    assert lab is not None
    head, worker = (line.split(" ", 1) for line in lab.known_hosts.read_text().splitlines())
    swapped = tmp_path / "known_hosts"
    swapped.write_text(f"{head[0]} {worker[1]}\n{worker[0]} {head[1]}\n")
    argv = [word.replace(str(lab.known_hosts), str(swapped)) for word in labs.ssh_argv(lab, "head", ["true"])]
    assert subprocess.run(argv, capture_output=True, check=False).returncode == 255


def test_only_the_node_without_python_lacks_it(rehearsal: Rehearsal) -> None:
    assert rehearsal.ssh("head", "python3", "-c", "import ssl, sqlite3").returncode == 0
    assert rehearsal.ssh("w01", "sh", "-c", "command -v python3").returncode != 0


def test_nothing_of_the_cluster_is_there_beforehand(rehearsal: Rehearsal) -> None:
    said = rehearsal.ssh("head", "dpkg-query", "-W", "-f", "${Package}\n").stdout.split()
    assert "openssh-server" in said
    assert not [package for package in said if "slurm" in package or "torch" in package or "munge" in package]


def test_packages_come_through_the_proxy_alone(rehearsal: Rehearsal) -> None:
    assert rehearsal.ssh("head", "ip", "route", "show", "default").stdout == ""
    done = rehearsal.ssh("w01", "sudo", "apt-get", "install", "--yes", "-qq", "hello")
    assert done.returncode == 0, done.stderr
    assert rehearsal.ssh("w01", "hello").stdout == "Hello, world!\n"


def test_a_stopped_node_comes_back_with_its_disk_and_host_key(rehearsal: Rehearsal) -> None:
    rehearsal.down("w01")
    assert [node.state for node in labs.status(rehearsal.name).nodes] == ["running", "stopped"]
    assert rehearsal.ssh("head", "true").returncode == 0
    rehearsal.up()
    assert any(line.startswith("head: runs already") for line in rehearsal.said)
    assert any(line.startswith("w01: started") for line in rehearsal.said)
    assert rehearsal.ssh("w01", "hello").stdout == "Hello, world!\n"


def cli(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "HPCFORGE_LAB"}
    command = [sys.executable, "-m", "hpcforge", "rehearse", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def test_the_list_shows_what_runs_since_when_and_of_which_blueprint(rehearsal: Rehearsal) -> None:
    rehearsal.down("w01")
    one = next(
        load for load in json.loads(cli("list", "--json").stdout)["rehearsals"] if load["name"] == rehearsal.name
    )
    assert (one["running"], one["stopped"], one["saves"]) == (["head"], ["w01"], [])
    assert one["blueprint"].endswith("/blueprints/rehearsal.yaml")
    assert time.time() - 3600 < one["since_s"] < time.time()
    row = next(line for line in cli("list").stdout.splitlines() if line.startswith(f"{rehearsal.name} "))
    assert row.split()[1:4] == ["1", "of", "2"]


def test_who_enters_a_stopped_node_is_told_what_starts_it(rehearsal: Rehearsal) -> None:
    done = cli("ssh", "w01", "--lab", rehearsal.name)
    assert done.returncode == 3
    assert f"w01 of the rehearsal '{rehearsal.name}' is stopped" in done.stderr
    assert re.search(rf"rehearse up \S+/rehearsal.yaml --lab {rehearsal.name}\n", done.stderr)
    rehearsal.up()


def test_a_node_that_reboots_keeps_its_address(rehearsal: Rehearsal) -> None:
    before = rehearsal.ssh("w01", "sudo", "systemctl", "show", "-p", "UserspaceTimestampMonotonic").stdout
    rehearsal.ssh("w01", "sudo", "systemctl", "reboot")
    deadline = time.monotonic() + 120
    while (now := rehearsal.ssh("w01", "sudo", "systemctl", "show", "-p", "UserspaceTimestampMonotonic")).stdout in (
        before,
        "",
    ):
        assert time.monotonic() < deadline, now.stderr
        time.sleep(0.2)
    assert rehearsal.ssh("w01", "hello").stdout == "Hello, world!\n"


def test_a_node_that_lost_power_is_started_again(rehearsal: Rehearsal) -> None:
    rehearsal.ssh("w01", "sudo", "sh", "-c", "sync")
    lab = rehearsal.lab
    assert lab is not None
    pattern = f"^systemd-nspawn .*--machine={lab.machine('w01')}"
    spawner = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True, check=True).stdout.split()
    os.kill(int(spawner[0]), signal.SIGKILL)
    until = time.monotonic() + 60
    while subprocess.run(["pgrep", "-f", pattern], capture_output=True, check=False).returncode == 0:
        assert time.monotonic() < until
        time.sleep(0.05)
    rehearsal.up()
    assert any(line.startswith("w01: started") for line in rehearsal.said)
    assert rehearsal.ssh("w01", "hello").stdout == "Hello, world!\n"


def test_an_interface_that_the_kernel_has_not_removed_yet_is_no_obstacle(rehearsal: Rehearsal) -> None:
    """It is removed some time after a node was killed, late where the host is busy."""
    rehearsal.down("w01")
    assert rehearsal.lab is not None
    interface = f"vb-{rehearsal.lab.machine('w01')}"
    until = time.monotonic() + 60
    while subprocess.run(["ip", "link", "show", interface], capture_output=True, check=False).returncode == 0:
        assert time.monotonic() < until
        time.sleep(0.05)
    peer = f"{interface[3:]}x"
    subprocess.run(["ip", "link", "add", interface, "type", "veth", "peer", "name", peer], check=True)
    try:
        rehearsal.up()
    finally:  # it is there only where the node could not start
        subprocess.run(["ip", "link", "delete", "dev", peer], capture_output=True, check=False)
    assert any(line.startswith("w01: started") for line in rehearsal.said)
    assert rehearsal.ssh("w01", "true").returncode == 0


def test_a_grown_blueprint_adds_a_node(rehearsal: Rehearsal) -> None:
    lab = rehearsal.up((*NODES, labs.LabNode("w02", "10.77.0.12")))
    assert any(line.startswith("w02: started") for line in rehearsal.said)
    assert rehearsal.ssh("w02", "ip", "-brief", "address", "show", "host0").stdout.split()[2].split("/")[0] == (
        lab.node("w02").address
    )


def test_a_second_lab_gets_another_subnet(rehearsal: Rehearsal) -> None:
    other = Rehearsal(f"test-second-{os.getpid()}")
    try:
        second = other.up((labs.LabNode("head", "10.77.0.10"),))
        assert rehearsal.lab is not None
        assert second.cidr != rehearsal.lab.cidr
        assert second.node("head").address.endswith(".10")
        assert second.packages_cache != rehearsal.lab.packages_cache
        assert other.ssh("head", "true").returncode == 0
    finally:
        other.down()
    assert other.left() == []
    assert rehearsal.ssh("head", "true").returncode == 0


def test_down_leaves_nothing(rehearsal: Rehearsal, inotify_before: int | None) -> None:
    assert rehearsal.traces() != []
    rehearsal.down()
    assert rehearsal.left() == []
    assert labs.load(rehearsal.name) is None
    if inotify_before is not None:
        assert limit_without_labs() in (None, inotify_before)
    rehearsal.down()
    assert "nothing to remove" in rehearsal.said[-1]


@pytest.mark.parametrize("after_s", [0.15, 0.4, 0.8])
def test_down_removes_what_a_killed_up_has_left(rehearsal: Rehearsal, after_s: float) -> None:
    name = f"{rehearsal.name}-k"
    program = f"""
from pathlib import Path
from hpcforge.lab.lab import LabNode, UpRequest, up
nodes = (LabNode("head", "10.77.0.10"), LabNode("w01", "10.77.0.11"))
print("go", flush=True)
up(UpRequest({name!r}, nodes, "10.77.0.0/24", "ops", "12", Path("b.yaml")), print)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(after_s)
        process.kill()
    assert process.returncode == -signal.SIGKILL  # it was at work
    lab = labs.load(name)
    said: list[str] = []
    labs.down(name, None, said.append)
    waited = f"waiting: another run is active on lab {name}"  # a child of the killed process may still hold the lock
    assert len([line for line in said if line != waited]) == 1
    assert left(name, lab.tag if lab else "no tag") == []


def test_down_removes_a_lab_whose_record_is_broken(rehearsal: Rehearsal) -> None:
    broken = Rehearsal(f"{rehearsal.name}-x")
    try:
        lab = broken.up((labs.LabNode("head"),))
        (lab.directory / "lab.json").write_text("{")
        with pytest.raises(labs.LabError, match="cannot be read"):
            broken.up()
    finally:
        broken.down()
    assert broken.left() == []
