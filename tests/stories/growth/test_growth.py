"""Nodes that come, go and are replaced under a running cluster, with Slurm 22.05 (Debian 12) and 24.11 (Debian 13).

One story a release, told in order: each test goes on where the one before it ended. `slurm.settings` has TreeWidth=2:
a message to four nodes is handed on by two of them, and arrives only if nodes that were there before know the new one.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.kills import Events, kill
from tests.support.site import BECOMES_S, Site

pytestmark = pytest.mark.lab

BLUEPRINT = Path(__file__).parents[1] / "blueprints" / "growth.yaml"

# Waits for a sign, then starts one more step: a job that was there before must be able to go on, not only to sleep.
JOB = "srun -N2 hostname; until test -e /tmp/go; do sleep 0.2; done; srun -N2 hostname; echo whole"

SRUN = "sudo -iu ada timeout 300 srun"  # asks for no memory, and still runs beside another that does not

WAITS = "sudo -iu ada sbatch --parsable -D /tmp -o /dev/null --begin=now+2hours"
WAITING = "squeue -h --states=PENDING -o %j | sort"

STARTS = """
for unit in munge chrony dnsmasq {more}; do
  echo "$unit $(systemctl show -P ExecMainStartTimestampMonotonic $unit)"
done
sudo find /etc -type f ! -path /etc/ssh/ssh_known_hosts2 -exec sha256sum {{}} + | sort -k2 | sha256sum
"""


# Work that waits for the controller, and for which a node in service is drained.
DRAINS = """\
description: Work that jobs must not see.
on: "'worker' in node.functions"
needs: ["slurm_controller@cluster"]
disrupts: {code: drain}
"""
WORK = """\
from pyinfra.operations import server

server.shell(name="Work", commands=["true"])
"""

INSTALLED = "dpkg-query -W -f '${Package}\\n'"


@dataclass(frozen=True)
class Cluster:
    """A site, and which release it runs."""

    site: Site
    release: str

    @property
    def slurm(self) -> str:
        return {"12": "22.05", "13": "24.11"}[self.release]

    def ran(self, *words: str) -> str:
        """Run hpcforge; it must succeed. What it said on either stream."""
        done = self.site.cli(*words)
        assert done.returncode == 0
        return done.stderr + done.stdout

    def state_of(self, node: str) -> str:
        """The digest of everything in /etc, and when services were started: equal is untouched.

        A slurmd of 24.11 starts itself anew when it is told to read its configuration; one of 22.05 does not.
        """
        return self.site.ssh(node, STARTS.format(more="slurmd" if self.release == "12" else ""))

    def submit(self, options: str, script: str) -> str:
        """The number of a job of ada's, once it has begun.

        What srun says goes elsewhere: that the step before has not ended yet for slurmctld, and that it asks again.
        """
        words = f"sudo -iu ada sbatch --parsable -D /tmp -o /tmp/%j.out -e /tmp/%j.err {options} --wrap '{script}'"
        job = self.site.ssh("head", words).strip()
        self.wait_for(job, "RUNNING", "COMPLETING", "COMPLETED")
        return job

    def job_state(self, job: str) -> str:
        shown = self.site.ssh("head", f"scontrol --oneliner show job {job}")
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)["JobState"]

    def wait_for(self, job: str, *states: str) -> None:
        until = time.monotonic() + BECOMES_S  # an srun that was told to wait asks again after 120 to 129 s
        while (state := self.job_state(job)) not in states:
            assert state in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"), f"job {job} is {state}"
            assert time.monotonic() < until, f"job {job} is still {state}"
            time.sleep(0.5)

    def nodes(self) -> list[str]:
        """Slurm's nodes with their states."""
        return self.site.ssh("head", "sinfo -h -N -o '%N %t'").splitlines()

    def settled(self, *nodes: str) -> None:
        """Slurm has exactly these nodes and can use them; one that was restarted registers within seconds."""
        until = time.monotonic() + BECOMES_S  # slurmctld asks a node that it missed again after 40 s
        wanted = {f"{node} {state}" for node in nodes for state in ("idle", "mix", "alloc")}
        while not (len(found := self.nodes()) == len(nodes) and set(found) <= wanted):
            assert time.monotonic() < until, found
            time.sleep(0.3)


@pytest.fixture(scope="module", params=["12", "13"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp(f"growth{request.param}")
    (folder / "blueprints").mkdir()
    blueprint = folder / "blueprints" / "rehearsal.yaml"
    shutil.copy(BLUEPRINT, blueprint)
    own = folder / "roles" / "own"
    own.mkdir(parents=True)
    (own / "role.yaml").write_text(DRAINS)
    (own / "deploy.py").write_text(WORK)
    text = blueprint.read_text().replace('release: "12"', f'release: "{request.param}"')
    blueprint.write_text(f"{text}\nrole_folders: [../roles]\n")
    release = {"12": "twelve", "13": "thirteen"}[request.param]
    here = Cluster(Site(folder, f"test-growth{release}-{os.getpid()}"), request.param)
    try:
        yield here
    finally:
        here.site.cli("rehearse", "down")


def _slurm_conf_has_changed(events: Events) -> bool:
    return any(event.get("name") == "/etc/slurm/slurm.conf" for event in events if event["event"] == "changed")


def test_a_node_comes_while_a_job_runs(cluster: Cluster) -> None:
    cluster.ran("rehearse", "up", "BLUEPRINT")
    cluster.ran("apply", "BLUEPRINT", "--yes")
    site = cluster.site
    assert f" {cluster.slurm}." in site.ssh("head", "scontrol --version")
    assert "= 2\n" in site.ssh("head", "scontrol show config | grep TreeWidth")
    job = cluster.submit("-w w[01-02]", JOB)
    before = {node: cluster.state_of(node) for node in ("w01", "w02", "w03")}
    names = site.ssh("head", "systemctl show -P ExecMainStartTimestampMonotonic dnsmasq")

    cluster.ran("nodes", "add", "BLUEPRINT", "w04", "--yes")
    assert '"10.78.0.[11-14]"}  # the first three\n' in site.blueprint.read_text()
    cluster.ran("rehearse", "up", "BLUEPRINT")
    # w04 begins early enough to be seen as configured; its first contact takes longer than slurm.conf on the head.
    base = site.cli("apply", "BLUEPRINT", "--yes", "--only", "base", "--limit", "w04", "--verify", "none")
    assert (base.returncode, "w04 is not in Slurm's list of nodes" in base.stdout) == (5, True)
    assert kill(site, _slurm_conf_has_changed), "the apply ended before it could be killed"
    # The head reverts its change, and w04 goes on by itself with the step that it is at. Slurm does not know w04 then,
    # which still has work for which it would be drained if it were in service.
    plan = json.loads(site.cli("plan", "BLUEPRINT", "--json").stdout)
    assert "w04" in {node for step in plan["steps"] if step["role"] == "own" for node in step["changes"]}
    assert "2 nodes to change: head,w04; unchanged: w[01-03]" in cluster.ran("apply", "BLUEPRINT", "--yes")

    assert {node: cluster.state_of(node) for node in before} == before
    assert site.ssh("head", "systemctl show -P ExecMainStartTimestampMonotonic dnsmasq") == names
    site.becomes("w01", "getent ahostsv4 w04 | cut -d' ' -f1 | uniq", site.ssh("w04", "hostname -I").split()[0] + "\n")
    assert cluster.job_state(job) == "RUNNING"
    cluster.settled("w01", "w02", "w03", "w04")
    # from the head, and from within a job on an old node: both hand on through old nodes to the new one
    assert sorted(site.ssh("head", SRUN + " -N4 hostname").split()) == ["w01", "w02", "w03", "w04"]
    spanning = cluster.submit("-w w[01-04]", "srun -N4 hostname; srun -N4 hostname")
    cluster.wait_for(spanning, "COMPLETED")
    assert sorted(site.ssh("w01", f"cat /tmp/{spanning}.out").split()) == sorted(["w01", "w02", "w03", "w04"] * 2)
    site.ssh("w01", "sudo touch /tmp/go")
    cluster.wait_for(job, "COMPLETED")
    assert sorted(site.ssh("w01", f"cat /tmp/{job}.out").split()) == ["w01", "w01", "w02", "w02", "whole"]
    assert cluster.site.cli("plan", "BLUEPRINT").returncode == 0


def test_a_partitions_limit_changes_while_a_job_runs(cluster: Cluster) -> None:
    site = cluster.site
    job = cluster.submit("-w w[01-02]", "until test -e /tmp/changed; do sleep 0.2; done; srun -N2 hostname; echo whole")
    before = site.ssh("head", "systemctl show -P MainPID slurmctld"), cluster.state_of("w01")
    text = site.blueprint.read_text()
    assert text.count('"01:00:00"') == 1
    site.blueprint.write_text(text.replace('"01:00:00"', '"02:00:00"'))
    plan = site.cli("plan", "BLUEPRINT").stdout
    assert "~ unit slurmctld.service: refresh (/etc/slurm/slurm.conf changed)" in plan
    assert "disrupts" not in plan
    said = cluster.ran("apply", "BLUEPRINT", "--yes")
    site.becomes("head", "scontrol show partition main | grep -o 'MaxTime=[^ ]*'", "MaxTime=02:00:00\n")
    if cluster.release == "12":  # a later one takes its own place, under another number
        assert (site.ssh("head", "systemctl show -P MainPID slurmctld"), cluster.state_of("w01")) == before
    site.becomes("w01", "grep -o MaxTime=[0-9:]* /run/slurm/conf/slurm.conf", "MaxTime=02:00:00\n")
    assert cluster.job_state(job) == "RUNNING"
    site.ssh("w01", "sudo touch /tmp/changed")
    cluster.wait_for(job, "COMPLETED")
    assert site.ssh("w01", f"tail -n 1 /tmp/{job}.out") == "whole\n"

    [offered] = [line.partition(" rehearse ")[2] for line in said.splitlines() if line.startswith("run a job: ")]
    assert offered.endswith(" -- sudo -iu ada srun -N4 hostname")
    ran = site.cli("rehearse", *offered.split())
    assert (ran.returncode, sorted(ran.stdout.split())) == (0, ["w01", "w02", "w03", "w04"])


@pytest.mark.parametrize(
    ("asked", "said"),
    [("-N5", "Node count specification invalid"), ("-t 02:00:01", "Requested time limit is invalid")],
)
def test_a_job_that_can_never_run_is_refused_when_it_is_submitted(cluster: Cluster, asked: str, said: str) -> None:
    submit = f"sudo -iu ada sbatch -D /tmp -o /dev/null {asked} --wrap true"
    done = cluster.site.cli("rehearse", "ssh", "head", "--", submit)
    assert done.returncode == 1
    assert said in done.stderr
    cluster.site.becomes("head", "squeue -h", "")  # the job before it completes for a moment


def test_a_node_that_a_waiting_job_asks_for_stays(cluster: Cluster) -> None:
    """Slurm ends such a job, held or not, when it does not know the node any more."""
    site = cluster.site
    asks = site.ssh("head", f"{WAITS} -J asks -H -w w02 --wrap hostname").strip()
    site.ssh("head", f"{WAITS} -J shuns -x w02 --wrap hostname")
    wide = site.ssh("head", f"{WAITS} -J wide -N4 --wrap hostname").strip()
    cluster.ran("nodes", "remove", "BLUEPRINT", "w02", "--yes")
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 2
    assert "4 nodes to change: head,w[01,03-04]; 1 node to leave: w02" in done.stderr  # its key is revoked everywhere
    mended = f"scontrol update JobId={asks} ReqNodeList="
    assert f"! stays for now: job {asks} of ada asks for w02 by name and has not begun; " in done.stderr
    assert f"{mended} (it runs elsewhere) or scancel {asks}; apply again later\n" in done.stdout
    assert f"job {wide} of ada asks for 4 nodes of main: it waits for more nodes\n" in done.stderr
    cluster.settled("w01", "w02", "w03", "w04")
    assert site.ssh("head", WAITING) == "asks\nshuns\nwide\n"
    site.ssh("head", f"sudo {mended}")


def test_a_node_goes_when_its_job_has_ended(cluster: Cluster) -> None:
    site = cluster.site
    job = cluster.submit("-w w02", "sleep 12; echo whole")
    other = cluster.submit("-w w03", "until test -e /tmp/go; do sleep 0.2; done; echo whole")
    before = {node: cluster.state_of(node) for node in ("w01", "w03", "w04")}
    ours = site.ssh("w02", INSTALLED).splitlines()
    planned = site.cli("plan", "BLUEPRINT").stdout
    assert "unit slurmd.service: stop\n" in planned
    assert "ssh.service: stop" not in planned
    said = cluster.ran("apply", "BLUEPRINT", "--yes")
    _, _, stays = said.partition("stays on w02:\n")
    for line in (
        "  unit ssh.service: it ran before hpcforge and still runs\n",
        "  home /home/ada: hpcforge locks accounts and never deletes them\n",
        "  file /etc/hostname: the machine keeps its name\n",
        "  /var/lib/slurm/slurmd: what slurmd kept of jobs\n",
    ):
        assert line in planned.replace("  = stays: ", "  ")
        assert line in stays
    packages = next(line for line in stays.splitlines() if line.startswith("  packages "))
    assert {"slurmd", "slurm-client", "munge", "chrony"} <= {*packages.partition(":")[0].split()} <= {"packages", *ours}
    assert "1 node to change: head; 1 node to leave: w02" in said
    cluster.wait_for(job, "COMPLETED")
    assert site.ssh("w02", f"cat /tmp/{job}.out") == "whole\n"
    assert {node: cluster.state_of(node) for node in before} == before
    cluster.settled("w01", "w03", "w04")
    assert cluster.job_state(other) == "RUNNING"
    site.ssh("w03", "sudo touch /tmp/go")
    cluster.wait_for(other, "COMPLETED")
    assert site.ssh("head", WAITING) == "asks\nshuns\nwide\n"
    site.ssh("head", "sudo scancel --user=ada --state=PENDING")


def test_a_node_that_went_leaves_no_ghost_and_keeps_no_key(cluster: Cluster) -> None:
    site = cluster.site
    key = site.ssh("w02", "cut -d' ' -f2 /etc/ssh/ssh_host_ed25519_key.pub").strip()
    assert site.ssh("w01", f"grep -cF '{key}' /etc/ssh/ssh_known_hosts2").strip() == "3"
    assert site.ssh("w01", f"grep -F '{key}' /etc/ssh/ssh_known_hosts2 | grep -v ^@revoked || true") == ""
    assert "w02" not in site.ssh("head", "sinfo -a -h -N; sinfo -R -h; sudo cat /etc/slurm/*.conf /etc/dnsmasq.hosts")
    assert "w02" not in site.ssh("head", "sudo cat /var/lib/hpcforge/roster.json; cat /etc/ssh/ssh_known_hosts*")
    site.becomes("w01", "getent ahostsv4 w02.growth.example.org || echo none", "none\n")
    assert site.ssh("w02", "systemctl is-active slurmd munge chrony || true").split() == ["inactive"] * 3
    gone = "/etc/munge/munge.key /var/lib/hpcforge /etc/systemd/system/slurmd.service.d/hpcforge.conf"
    assert site.ssh("w02", f"for p in {gone}; do sudo test -e $p && echo $p; done; true") == ""
    assert site.ssh("w02", "cat /etc/hostname; hostname; systemctl is-active ssh") == "w02\nw02\nactive\n"
    # All that bears our name: what the report says, and that of the rehearsal itself, which it is a node of.
    found = site.ssh("w02", "sudo find / -xdev -path /proc -prune -o -iname '*hpcforge*' -print").splitlines()
    assert [path for path in found if not path.startswith("/run/hpcforge")] == []
    assert site.ssh("w02", "sudo grep -rIl hpcforge /etc") == "/etc/hosts\n"
    assert site.cli("plan", "BLUEPRINT").returncode == 0


def test_a_node_that_is_away_is_forgotten_and_named(cluster: Cluster) -> None:
    site = cluster.site
    cluster.ran("rehearse", "down", "w03")
    cluster.ran("nodes", "remove", "BLUEPRINT", "w03", "--yes")
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 4
    assert "w03" in done.stdout
    assert "it keeps its keys" in done.stdout
    cluster.settled("w01", "w04")
    assert "w03" not in site.ssh(
        "head", "sudo cat /var/lib/hpcforge/roster.json /etc/slurm/slurm.conf /etc/dnsmasq.hosts"
    )
    assert site.cli("plan", "BLUEPRINT").returncode == 0


def test_another_machine_takes_an_old_name(cluster: Cluster) -> None:
    site = cluster.site
    before = cluster.state_of("w01"), cluster.state_of("head")
    machine = site.ssh("w04", "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub")
    cluster.ran("rehearse", "down", "w04", "--disks")
    cluster.ran("nodes", "replace", "BLUEPRINT", "w04", "--yes")
    cluster.ran("rehearse", "up", "BLUEPRINT")
    assert "3 nodes to change: head,w[01,04]" in cluster.ran("apply", "BLUEPRINT", "--yes")
    assert site.ssh("w04", "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub") != machine
    assert (cluster.state_of("w01"), cluster.state_of("head")) == before
    cluster.settled("w01", "w04")
    assert sorted(site.ssh("head", SRUN + " -N2 hostname").split()) == ["w01", "w04"]
