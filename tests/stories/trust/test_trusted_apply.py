"""An apply of the whole of Slurm that is killed, held up by jobs, planned before, or narrowed, and what it ends in.

One lab for all: first the same three machines are set up anew again and again, then the cluster lives on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hpcforge.lab import lab as labs
from tests.support.site import BECOMES_S

pytestmark = pytest.mark.lab

BLUEPRINT = Path(__file__).parents[1] / "blueprints" / "trusted.yaml"
NODES = ("head", "w01", "w02")
_BARE = "bare"  # the save of all nodes before the first apply
WORKERS = ("w01", "w02")
CHRONY = "/etc/chrony/chrony.conf"

# A node's state by what its receipt says is ours, so that nothing of ours can be forgotten here.
STATE = r"""
import grp, hashlib, json, os, pwd, stat, subprocess
receipt = json.load(open("/var/lib/hpcforge/receipt.json"))
receipt = receipt.get("receipt", receipt)
roles = receipt["roles"]
def run(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, universal_newlines=True).stdout
def file(path):
    found = os.lstat(path)
    owner = pwd.getpwuid(found.st_uid).pw_name + ":" + grp.getgrgid(found.st_gid).gr_name
    return [oct(found.st_mode), owner, hashlib.sha256(open(path, "rb").read()).hexdigest()]
def unit(name):
    return run("systemctl", "show", "-P", "UnitFileState", "-P", "ActiveState", "-P", "SubState", name).split()
for role in roles.values():  # as wanted before us: "unknown" where that was seen, kept where nobody could look
    for entry in role["files"].values():
        if isinstance(entry["before"], dict) and entry["before"].get("kept") == entry["digest"]:
            entry["before"] = "unknown"
state = {
    "files": {path: file(path) for role in roles.values() for path in role["files"]},
    "directories": {p: oct(os.stat(p).st_mode) for role in roles.values() for p in role["directories"]},
    "units": {name: unit(name) for role in roles.values() for name in role["units"]},
    "accounts": {name: run("getent", "passwd", name) for role in roles.values() for name in role["accounts"]},
    "packages": run("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n").splitlines(),
    "owned": roles,
    "restarts due": receipt["restarts"],
    "amiss": run("dpkg", "--audit") + run("systemctl", "--failed", "--plain", "--no-legend"),
    "left over": run("find", "/etc", "/var/lib/hpcforge", "-name", ".*hpcforge*", "-o", "-name", "*.tmp"),
}
print(json.dumps(state))
"""

# Slurm as it sees itself, but for when it began and what it counts.
SLURM = r"""
scontrol show config | grep -vE '^(Configuration data|BOOT_TIME|NEXT_JOB_ID|HASH_VAL|SLURMCTLD_PID)|pid *='
scontrol --oneliner show partition
sinfo -h -N -o '%N %T %G %c %m %E'
"""

# From now on a node's clock is off by $SKEW, for the node program and for munge.
SKEWED = r"""
[ -e /usr/lib/*/faketime ] || apt-get -qq install -y --no-install-recommends libfaketime >/dev/null 2>&1
cat >/usr/local/bin/python3 <<'END'
#!/usr/bin/python3 -IS
import sys, time
clock, code = time.time, sys.argv[-1]
time.time = lambda: clock() + float(open("/etc/skew").read())
exec(code)
END
chmod 755 /usr/local/bin/python3
echo "$SKEW" >/etc/skew
mkdir -p /run/systemd/system/munge.service.d
cat >/run/systemd/system/munge.service.d/skew.conf <<END
[Service]
Environment=LD_PRELOAD=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1) FAKETIME=$SKEW FAKETIME_DONT_FAKE_MONOTONIC=1
END
systemctl daemon-reload
systemctl restart munge
"""
UNSKEWED = """
rm -f /usr/local/bin/python3 /run/systemd/system/munge.service.d/skew.conf
systemctl daemon-reload
systemctl restart munge
"""

ACTIVE = "systemctl show -P ActiveEnterTimestampMonotonic slurmctld"
STARTED = "systemctl show -P ExecMainStartTimestampMonotonic -P ActiveEnterTimestampMonotonic"

# Waits for a sign, then starts one more step: a job that was there before must be able to go on, not only to sleep.
JOB = "srun hostname; until test -e /tmp/go; do sleep 0.2; done; srun hostname; echo whole"


@dataclass
class Cluster:
    """The blueprint and the state of an operator host in a folder of their own; a lab."""

    folder: Path
    name: str

    @property
    def blueprint(self) -> Path:
        return self.folder / "trusted.yaml"

    @property
    def lab(self) -> labs.Lab:
        lab = labs.load(self.name)
        assert lab is not None
        return lab

    def _environment(self) -> dict[str, str]:
        own = {
            "HPCFORGE_LAB": self.name,
            "HPCFORGE_IDENTITY": str(self.folder / "age.key"),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }
        return {**os.environ, **own}

    def _words(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "hpcforge", *(str(self.blueprint) if w == "BLUEPRINT" else w for w in arguments)]

    def cli(self, *arguments: str, code: int = 0) -> str:
        """hpcforge, which must end with this exit status; what it said on either stream."""
        done = subprocess.run(
            self._words(*arguments), env=self._environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=1800, check=False,
        )  # fmt: skip
        print(f"$ hpcforge {' '.join(arguments)}\n{done.stderr}{done.stdout}exit status {done.returncode}\n")
        assert done.returncode == code, done.stderr + done.stdout
        return done.stderr + done.stdout

    def apply(self, *options: str, code: int = 0) -> str:
        return self.cli("apply", "BLUEPRINT", "--yes", *options, code=code)

    def apply_until(self, here: Callable[[dict[str, Any]], bool]) -> float:
        """Begin an apply, and kill it at the first event that is `here`; when, by the one clock that all nodes have."""
        log = self.folder / "killed.log"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                self._words("apply", "BLUEPRINT", "--yes", "--json"), env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True,
            )  # fmt: skip
        assert process.stdout is not None
        try:
            reached = any(here(json.loads(line)) for line in process.stdout)
        finally:
            process.send_signal(signal.SIGKILL)  # to it alone: its children are not told
            killed_s = time.monotonic()
            process.stdout.close()
            process.wait()
        assert reached, f"it never came to where it is to be killed:\n{log.read_text()}"
        return killed_s

    def apply_halted(self, do: Callable[[], object], *options: str) -> int:
        """An apply that stands still when its plan is made, until this is done; its exit status."""
        log = self.folder / "halted.log"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                self._words("apply", "BLUEPRINT", "--yes", "--json", *options), env=self._environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True,
            )  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if json.loads(line)["event"] == "plan":
                    process.send_signal(signal.SIGSTOP)
                    do()
                    process.send_signal(signal.SIGCONT)
            return process.wait()
        finally:
            process.kill()
            process.stdout.close()
            process.wait()

    def inside(self, node: str, script: str, *, stdin: str = "") -> str:
        """A script on a node as root; what it printed. It must succeed."""
        argv = labs.ssh_argv(self.lab, node, ["sudo", "-n", "sh", "-c", script])
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, f"on {node}: {script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def state(self) -> dict[str, Any]:
        """Everything that applies are to make equal, however they went, once Slurm's nodes are idle."""
        for worker in WORKERS:
            self.in_slurm(worker, "idle none")
        found: dict[str, Any] = {node: json.loads(self.inside(node, "python3 -", stdin=STATE)) for node in NODES}
        return {**found, "slurm": self.inside("head", SLURM).splitlines()}

    def fresh(self) -> None:
        """The machines as they were before the first apply, host keys and all."""
        labs.restore(self.name, _BARE, print)
        shutil.rmtree(self.folder / "state", ignore_errors=True)

    def started(self, unit: str, nodes: tuple[str, ...] = WORKERS) -> dict[str, float]:
        """When a unit was started last, by node: seconds by the one clock that all of a lab's nodes have."""
        return {node: max(map(int, self.inside(node, f"{STARTED} {unit}").split())) / 1e6 for node in nodes}

    def submit(self, node: str, script: str = JOB) -> str:
        """The number of a job of ada's on a node, once it runs."""
        self.inside(node, "rm -f /tmp/go")
        options = f"--parsable --mem=100M -D /tmp -o /tmp/%j.out -e /tmp/%j.err -w {node}"
        job = self.inside("head", f"sudo -iu ada sbatch {options} --wrap '{script}'").strip()
        self.wait_for(job, "RUNNING")
        a_step_is_done = f"until grep -qs . /tmp/{job}.out; do sleep 0.2; done"
        self.inside(node, f"timeout {BECOMES_S} sh -c '{a_step_is_done}'")
        return job

    def finish(self, node: str, job: str) -> None:
        """Let a job end, which must have come through whole."""
        assert self.job_state(job) == "RUNNING"
        self.inside(node, "touch /tmp/go")
        self.wait_for(job, "COMPLETED")
        assert self.inside(node, f"cat /tmp/{job}.out").split() == [node, node, "whole"]

    def job_state(self, job: str) -> str:
        shown = self.inside("head", f"scontrol --oneliner show job {job}")
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)["JobState"]

    def wait_for(self, job: str, wanted: str) -> None:
        until = time.monotonic() + BECOMES_S  # an srun that was told to wait asks again after 120 to 129 s
        while (state := self.job_state(job)) != wanted:
            assert state in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"), f"job {job} is {state}"
            assert time.monotonic() < until, f"job {job} is still {state}"
            time.sleep(0.3)

    def in_slurm(self, node: str, wanted: str) -> None:
        """State and reason of a node become these, as users see them: a job completes for a moment."""
        until = time.monotonic() + BECOMES_S
        while (seen := self.inside("head", f"sinfo -h -n {node} -o '%T %E'").strip()) != wanted:
            assert time.monotonic() < until, seen
            time.sleep(0.3)

    def spoil(self, *nodes: str, path: str = CHRONY) -> None:
        """Somebody edits a file by hand."""
        for node in nodes:
            self.inside(node, f"echo '# by hand' >>{path}")

    def spoiled(self, path: str = CHRONY) -> list[str]:
        """Where that is still to be seen."""
        return [node for node in NODES if "by hand" in self.inside(node, f"cat {path}")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("trusted")
    shutil.copy(BLUEPRINT, folder)
    here = Cluster(folder, f"test-trusted-{os.getpid()}")
    try:
        here.cli("rehearse", "up", "BLUEPRINT")
        labs.save(here.name, _BARE, print)
        yield here
    finally:
        labs.down(here.name, None, print)


@pytest.fixture(scope="module")
def wanted(cluster: Cluster) -> dict[str, Any]:
    """The cluster after a first apply that nothing disturbed."""
    cluster.apply()
    return cluster.state()


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with the way to it, so that a difference is shown as what it is."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from flat(one, f"{name} {key}".strip())
    else:
        yield name, value


def _installing(event: dict[str, Any]) -> bool:
    return event["event"] == "progress" and "%" in event["detail"] and event["node"] == "head"


def _configured(event: dict[str, Any]) -> bool:
    return event["event"] == "changed" and event["name"] == "/etc/slurm/slurm.conf"


def _starting(event: dict[str, Any]) -> bool:
    return event["event"] == "changed" and event["name"] == "slurmctld.service"


@pytest.mark.parametrize(
    ("here", "proof"),
    [
        (_installing, "test -e /etc/chrony/chrony.conf.dpkg-new || ! test -e /etc/slurm/slurm.conf"),
        # What the head is at goes on there: by now slurmctld may be active.
        (_configured, f"test -e /etc/slurm/slurm.conf && at=$({ACTIVE}) && test $at = 0 -o $at -gt KILLED_US"),
        (_starting, "systemctl -q is-active slurmctld"),
    ],
    ids=["packages", "between-files-and-units", "slurmctld-comes-up"],
)
def test_killed_and_applied_again_it_ends_where_it_would_have(
    cluster: Cluster, wanted: dict[str, Any], here: Callable[[dict[str, Any]], bool], proof: str
) -> None:
    cluster.fresh()
    killed_s = cluster.apply_until(here)
    cluster.inside("head", proof.replace("KILLED_US", str(int(killed_s * 1e6))))
    if here is not _starting:  # there w01 may have been told to go on before the kill came
        assert cluster.inside("w01", "systemctl is-active slurmd || true") == "inactive\n"
    cluster.apply()
    found, expected = set(map(str, flat(cluster.state()))), set(map(str, flat(wanted)))
    assert (sorted(found - expected), sorted(expected - found)) == ([], [])
    assert "Nothing to do on 3 nodes." in cluster.cli("plan", "BLUEPRINT")


def test_a_new_munge_key_comes_to_all_nodes_together(cluster: Cluster, wanted: dict[str, Any]) -> None:
    job = cluster.submit("w01")
    key = "sha256sum /etc/munge/munge.key"
    old, before = cluster.inside("head", key), cluster.started("munge", NODES)
    cluster.cli("secrets", "rotate", "BLUEPRINT", "munge_key")
    cluster.apply()
    (new,) = {cluster.inside(node, key) for node in NODES}
    assert new != old
    after = cluster.started("munge", NODES)
    assert all(after[node] > before[node] for node in NODES)
    assert cluster.inside("head", "sudo -iu ada srun -N2 --mem=100M hostname | sort").split() == ["w01", "w02"]
    cluster.finish("w01", job)


def test_a_node_with_a_job_is_left_for_another_apply(cluster: Cluster, wanted: dict[str, Any]) -> None:
    job = cluster.submit("w02")
    before = cluster.started("hpcforge-fakegpu")
    said = cluster.apply("--force", "gpu_fake", code=2)
    assert f"jobs still run there: {job}" in said
    after = cluster.started("hpcforge-fakegpu")
    assert after["w01"] > before["w01"]  # nobody worked there: it is done
    assert after["w02"] == before["w02"]
    cluster.in_slurm("w02", "mixed none")  # in service, without our mark
    cluster.finish("w02", job)
    cluster.apply("--force", "gpu_fake", "--limit", "w02")
    assert cluster.started("hpcforge-fakegpu")["w02"] > before["w02"]
    cluster.in_slurm("w02", "idle none")


def test_what_an_administrator_drained_stays_drained(cluster: Cluster, wanted: dict[str, Any]) -> None:
    cluster.inside("head", "scontrol update NodeName=w01 State=DRAIN Reason='bad fan'")
    before = cluster.started("hpcforge-fakegpu")
    said = cluster.apply("--force", "gpu_fake", "--limit", "w01")
    assert cluster.started("hpcforge-fakegpu")["w01"] > before["w01"]
    assert "not by hpcforge, left alone: idle+drain: bad fan" in said
    cluster.in_slurm("w01", "drained bad fan")
    cluster.apply()
    cluster.in_slurm("w01", "drained bad fan")
    cluster.inside("head", "scontrol update NodeName=w01 State=RESUME")
    cluster.in_slurm("w01", "idle none")


def test_what_an_administrator_drains_after_the_plan_stays_drained(cluster: Cluster, wanted: dict[str, Any]) -> None:
    before = cluster.started("hpcforge-fakegpu")
    drain = "scontrol update NodeName=w01 State=DRAIN Reason='bad fan'"
    assert cluster.apply_halted(lambda: cluster.inside("head", drain), "--force", "gpu_fake", "--limit", "w01") == 0
    assert cluster.started("hpcforge-fakegpu")["w01"] > before["w01"]
    cluster.in_slurm("w01", "drained bad fan")
    cluster.inside("head", "scontrol update NodeName=w01 State=RESUME")
    cluster.in_slurm("w01", "idle none")


def test_a_plan_made_before_is_done_later_where_it_still_holds(cluster: Cluster, wanted: dict[str, Any]) -> None:
    plan = str(cluster.folder / "rollout.plan")
    cluster.spoil("w01", "w02")
    cluster.cli("plan", "BLUEPRINT", "-o", plan, code=2)
    cluster.spoil("w02")
    refused = cluster.apply("--plan", plan, "--strict", code=3)
    assert "w02: changed since the plan was made" in refused
    assert cluster.spoiled() == ["w01", "w02"]
    said = cluster.apply("--plan", plan, code=2)
    assert "w02 is left out: it changed after the plan was made: role " in said
    assert f"--output {plan}" in said.partition("go on:")[2]
    assert cluster.spoiled() == ["w02"]


def test_some_nodes_and_some_roles_only(cluster: Cluster, wanted: dict[str, Any]) -> None:
    cluster.spoil("head", "w01", "w02")
    assert "1 node to change: w01; restart: w01." in cluster.apply("--limit", "w01")
    assert cluster.spoiled() == ["head", "w02"]
    assert "1 node to change: w02; unchanged: w01; restart: w02." in cluster.apply("--exclude", "head")
    assert cluster.spoiled() == ["head"]
    cluster.spoil("w01")
    cluster.spoil("w01", path="/etc/hosts")
    said = cluster.apply("--limit", "worker", "--only", "base")
    assert "1 node to change: w01; unchanged: w02." in said
    assert cluster.spoiled() == ["head", "w01"]
    cluster.apply()
    assert cluster.spoiled() == []
    found = cluster.state()
    assert found["slurm"] == wanted["slurm"]


def test_a_wrong_clock_is_a_matter_of_the_clock(cluster: Cluster, wanted: dict[str, Any]) -> None:
    """Where chrony sees nothing: nodes of a lab have one clock, so the one of w01 is made wrong for who asks there."""
    cluster.spoil("w01", "w02", path="/etc/hosts")  # of a role that sets no clock
    try:
        cluster.inside("w01", f"SKEW=+2.5; {SKEWED}")
        said = cluster.cli("plan", "BLUEPRINT", code=2)  # noted, and no more
        # What is measured is as much more or less as one of the two answers was heard later.
        assert re.search(r"w01: its clock is [1-4]\.\d s ahead of that of head", said)
        ahead, behind = r"(89|9[0-2]) s ahead of that of head", r"(39[89]|40[0-2]) s behind that of head"
        for skew, seen in (("+90", ahead), ("-400", behind)):
            cluster.inside("w01", f"SKEW={skew}; {SKEWED}")
            assert re.search(f"w01 is left out: its clock is {seen}", cluster.cli("plan", "BLUEPRINT", code=5))
        credential = cluster.inside("w01", "munge -n")
        refused = cluster.inside("head", "unmunge || true", stdin=credential)
        assert "Expired credential" in refused  # all that Slurm would have to say of it
        said = cluster.apply(code=5)
        assert re.search(f"clock: its clock is {behind}: hpcforge changes nothing there until it is fixed", said)
        assert "credential" not in said
        assert cluster.spoiled("/etc/hosts") == ["w01"]  # the others are not held up
    finally:
        cluster.inside("w01", UNSKEWED)
    cluster.apply()
    assert cluster.spoiled("/etc/hosts") == []
