"""What the head keeps, on a real node: the lease beside other work and after a killed apply, the log, `status`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge.cluster.model import Access, Cluster, Network, Node, OperatingSystem, Partition, Service, Slurm
from hpcforge.engines import Engines
from hpcforge.engines.tasks import Command, Target
from hpcforge.plan.roster import LastRun, Roster, next_roster
from hpcforge.run.records import lease as leases
from hpcforge.run.records.history import past, read_log, write_log
from hpcforge.run.records.lease import LeaseHeldError, look, take
from hpcforge.run.result import ApplyResult, RoleOutcome, Run, RunResult
from hpcforge.run.status import status
from tests.stories.engines.conftest import Nodes

pytestmark = pytest.mark.lab

# An apply that takes the lease, says so, and then does nothing more until it is killed.
HOLDER = """
import sys
from pathlib import Path
from hpcforge.engines import Engines
from hpcforge.engines.tasks import Target
from hpcforge.run.records.lease import take
address, key, host_key, work = sys.argv[1:]
target = Target("n1", address, "ops", "sudo", Path(key), (host_key,))
with Engines([target], Path(work), Path(work)) as engines:
    lease = take(engines, "n1", "bobs", "bob@far", 0, print)
    print("held" if lease.held else "not held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def clean(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    files = "lease.json history.jsonl roster.json"
    nodes.inside("n1", f"cd /var/lib/hpcforge 2>/dev/null && rm -f {files}; true")
    yield
    nodes.inside("n1", f"cd /var/lib/hpcforge 2>/dev/null && rm -f {files}; true")


@pytest.fixture
def holder(nodes: Nodes, tmp_path: Path) -> Iterator[list[str]]:
    """The command line of an apply on this machine that takes the lease."""
    target = nodes.targets["n1"]
    return [sys.executable, "-c", HOLDER, target.address, str(target.key), target.host_keys[0], str(tmp_path / "bob")]


def test_heartbeats_do_not_wait_for_what_the_head_is_at(
    engines: Engines, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 0.3)
    beats = set()
    with take(engines, "n1", "mine", "ada@near", 0, print) as lease:
        lease.start(Command("long", "n1", ("sleep", "8154"), timeout_s=120.0))
        until = time.monotonic() + 60
        while len(beats) <= 2:
            assert time.monotonic() < until, beats
            assert lease.next(0.8) is None, "the long task has not ended yet"
            beats.add(json.loads(nodes.inside("n1", "cat /var/lib/hpcforge/lease.json"))["beat"]["up_s"])
        nodes.inside("n1", "pkill -f 'sleep 815[4]'")
        assert lease.run(Command("after", "n1", ("true",))).data["ok"]
    assert look(engines, "n1") is None


def test_a_killed_apply_of_this_machine_is_known_to_be_dead(engines: Engines, holder: list[str]) -> None:
    said: list[str] = []
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bob:
        assert bob.stdout is not None
        assert bob.stdout.readline() == "held\n"
        with pytest.raises(LeaseHeldError, match=r"bob@far has been at work on this cluster since"):
            take(engines, "n1", "mine", "ada@near", 0, said.append)
        seen = look(engines, "n1")
        assert seen is not None
        assert (seen.run_id, seen.silent_s < 60) == ("bobs", True)
        bob.send_signal(signal.SIGKILL)
        bob.wait()
    with take(engines, "n1", "mine", "ada@near", 0, said.append) as lease:
        assert lease.held
    assert "ended on this machine" in said[0]
    history, _, _ = read_log(engines, "n1", "small", 10)
    assert [(run.id, run.who, run.cut_off) for run in history.runs] == [("bobs", "bob@far", True)]


def test_one_of_another_machine_is_waited_for_until_it_is_stale(
    engines: Engines, holder: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine: process numbers of its own, so that nobody here can know that it is dead."""
    monkeypatch.setattr(leases, "STALE_S", 12.0)
    elsewhere = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *holder]
    with subprocess.Popen(elsewhere, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bob:
        assert bob.stdout is not None
        assert bob.stdout.readline() == "held\n"
        bob.send_signal(signal.SIGKILL)
        bob.wait()
    with pytest.raises(LeaseHeldError):
        take(engines, "n1", "mine", "ada@near", 0, print)
    said: list[str] = []
    with take(engines, "n1", "mine", "ada@near", 30, said.append) as lease:
        assert lease.held
    assert len(said) == 1
    assert "waiting up to " in said[0]


def small(nodes: Nodes) -> Cluster:
    def node(target: Target) -> Node:
        function = "head" if target.name == "n1" else "worker"
        return Node(target.name, target.name, (function,), "any", 1, 1, 1, 1024, None, target.address, target.host_keys)  # type: ignore[arg-type]

    return Cluster(
        name="small",
        domain="small.example.org",
        access=Access("ops", "sudo", None),
        nodes=tuple(node(target) for target in nodes.targets.values()),
        network=Network("cluster", "10.77.0.0/24"),
        services={name: Service(("n1",)) for name in ("dns", "time")},
        os=OperatingSystem("debian", "12", "3.11", "22.05", "2.36", "9.2"),
        pytorch=None,
        site_roles=(),
        slurm=Slurm("n1", (), (Partition("main", ("n2",), True, "INFINITE"),)),
        users=(),
        acceptance=None,
    )


def test_the_log_and_the_status(engines: Engines, nodes: Nodes) -> None:
    cluster = small(nodes)
    run = Run(7, "ab12", "ada@near", "small", "0.2.0", "c0ffee")
    came_to = RunResult(
        {"n1": {"base": RoleOutcome("done")}, "n2": {"base": RoleOutcome("failed", "no")}}, changed={"n1": 3}
    )
    one = past(run, ApplyResult(came_to), args=["--yes"], dirty=False, started_s=time.time() - 5, exit_code=5)
    last = LastRun(7, "ab12", "ada@near", time.time(), "0.2.0", "c0ffee")
    roster = next_roster(Roster(), cluster, last, ["n1", "n2"], ())
    assert write_log(engines, "n1", one, roster, "small") == []
    found = status(engines, cluster, 10, print)
    assert found.notes == ()
    assert found.last == one
    assert [(node.name, node.unreachable, node.changed) for node in found.nodes] == [
        ("n1", None, one),
        ("n2", None, None),
    ]
    assert (found.leaving, found.at_work) == ({}, None)
    nodes.inside(
        "n1", "printf 'gArb\\377age\\n' >> /var/lib/hpcforge/history.jsonl; echo x >> /var/lib/hpcforge/roster.json"
    )
    found = status(engines, cluster, 10, print)
    assert found.last == one
    assert found.notes[0] == "unreadable lines of the history: 1"
    assert found.notes[1].startswith("the node list cannot be used: damaged")
