"""Debian 14, not released yet: Slurm 26.05 and Python 3.14, and the way there from Debian 13, a worker at a time.

The head begins on 14 with two workers on 13, whose Slurm 24.11 is the oldest that 26.05 works with. An srun of 26.05
that waits for nodes of 24.11 starts no step there, so jobs come by sbatch. PyTorch is left out, to be short.
"""

from __future__ import annotations

import json
import shlex

import pytest

from hpcforge.catalog import load_catalog
from tests.support.kills import Events, kill
from tests.support.site import Site
from tools import slurm_settings

pytestmark = [pytest.mark.lab, pytest.mark.debian_14]

BEHIND = '  {}: {{release: "13", reason: not upgraded yet}}\n'
VERSIONS = r"scontrol -o show node | sed -nE 's/^NodeName=(\S+) .* Version=([0-9]+[.][0-9]+).*/\1 \2/p'"
# Waits for a sign and then starts one more step: what ran before has to go on, not only to sleep.
JOB = "hostname; until test -e /tmp/go; do sleep 0.2; done; srun hostname; echo whole"
JOBS = "squeue -h -S i -o '%j %T' || :"
IDLE = "sinfo -h -o '%D %T'"
# Leaves of two workers, and three partitions of the same nodes, each with a topology of its own.
NEAR = """
parts: {switches: {four: {protocols: [ethernet], ports: [{count: 4, rate_gbps: 10}]}}}
fabrics: {lan: {kind: ethernet, rate_gbps: 10, topology: fat-tree, switch: four, nodes: worker, designed_for: 8}}
"""
PARTITIONS = """  topology: {fabric: lan}
  partitions:
    near: {nodes: all, topology: block}
    plain: {nodes: all, topology: flat}
"""
UNSIGNED = """
import http.client
asked = http.client.HTTPConnection("head", 6817, timeout=20)
asked.request("GET", "/metrics/jobs-users-accts")
print(asked.getresponse().status)
"""


def submitted(site: Site, name: str, options: str) -> None:
    site.ssh("head", f"sudo -iu ada sbatch -J {name} -D /tmp -o /tmp/{name}.out {options} --wrap '{JOB}'")


def whole(site: Site, name: str, node: str) -> None:
    """A job that waits for its sign gets it, and ends with all of its steps."""
    site.ssh(node, "sudo touch /tmp/go")
    site.becomes(node, f"cat /tmp/{name}.out", f"{node}\n{node}\nwhole\n")
    site.becomes("head", JOBS, "")
    site.ssh(node, "sudo rm /tmp/go")


def installed_anew(site: Site, node: str) -> None:
    """Another release on a node, as a site installs it: drained first, then down until it is configured."""
    site.ssh("head", f"sudo scontrol update NodeName={node} State=DRAIN Reason=upgrade")
    site.becomes("head", f"sinfo -h -n {node} -o %T", "drained\n")
    text = site.blueprint.read_text().replace(BEHIND.format(node), "")
    site.blueprint.write_text(text.replace("overrides:\n\n", "\n"))
    assert site.cli("rehearse", "down", node, "--disks").returncode == 0
    site.ssh("head", f"sudo scontrol update NodeName={node} State=RESUME")
    site.ssh("head", f"sudo scontrol update NodeName={node} State=DOWN Reason=upgrade")
    assert site.cli("nodes", "replace", "BLUEPRINT", node, "--yes").returncode == 0
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0


def test_a_head_of_14_has_workers_of_13(site: Site) -> None:
    text = site.blueprint.read_text().replace('release: "12"', 'release: "14"')
    text = text.replace('  frameworks: {pytorch: "2.13.0"}\n', "").partition("\nacceptance:")[0]
    site.blueprint.write_text(f"{text}\noverrides:\n{BEHIND.format('w01')}{BEHIND.format('w02')}\n")
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    site.becomes("head", IDLE, "3 idle\n")
    assert site.ssh("head", VERSIONS) == "w01 24.11\nw02 24.11\nw03 26.05\n"
    site.ssh("head", "sudo -iu ada sbatch -N3 -D /tmp -o /tmp/all.out --wrap 'srun hostname'")
    site.becomes("w01", "sort /tmp/all.out", "w01\nw02\nw03\n")


def test_a_worker_is_moved_while_another_one_computes(site: Site) -> None:
    submitted(site, "one", "-w w01")
    site.becomes("head", JOBS, "one RUNNING\n")
    installed_anew(site, "w02")
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    site.becomes("head", "sinfo -h -n w02 -o %T", "idle\n")
    site.becomes("head", JOBS, "one RUNNING\n")
    whole(site, "one", "w01")


def _slurmd_is_installed(events: Events) -> bool:
    return any(event["event"] == "changed" and "slurmd" in str(event.get("name")) for event in events)


def test_the_last_one_is_moved_by_an_apply_that_was_killed(site: Site) -> None:
    installed_anew(site, "w01")
    assert kill(site, _slurmd_is_installed), "the apply ended before it could be killed"
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    site.becomes("head", IDLE, "3 idle\n")
    assert site.ssh("head", VERSIONS) == "w01 26.05\nw02 26.05\nw03 26.05\n"


def test_it_is_what_the_catalog_says(site: Site) -> None:
    assert " 26.05." in site.ssh("head", "scontrol --version")
    assert site.ssh("w03", "python3 --version").startswith("Python 3.14")
    assert site.ssh("w03", "findmnt -no FSTYPE /sys/fs/cgroup") == "cgroup2\n"
    library = site.fetch("head", "/usr/lib/*/slurm-wlm/libslurmfull.so")
    release = load_catalog().slurm["26.05"]
    assert slurm_settings.settings(library) == (release.settings, release.partition_settings)
    assert "CUDA_VISIBLE_DEVICES=0\n" in site.ssh("head", "sudo -iu ada srun --gres=gpu:1 env")
    log = site.ssh("head", "sudo cat /var/log/slurm/slurmctld.log")
    assert [line for line in log.splitlines() if "defunct" in line or "has been replaced" in line] == []


def test_a_second_apply_changes_nothing(site: Site) -> None:
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "Nothing to do on 4 nodes." in done.stderr
    assert json.loads(site.cli("plan", "BLUEPRINT", "--json").stdout)["steps"] == []


def test_a_node_comes_and_services_are_turned_on_under_a_job(site: Site) -> None:
    submitted(site, "early", "-w w03")
    site.becomes("head", JOBS, "early RUNNING\n")
    assert site.cli("nodes", "add", "BLUEPRINT", "w04", "--yes").returncode == 0
    text = site.blueprint.read_text()
    before, time, after = text.partition("\n  time:  {on: head}\n")
    assert time
    site.blueprint.write_text(f"{before}{time}  accounting: {{on: head}}\n  metrics: {{on: head}}\n{after}")
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    site.becomes("head", "sinfo -h -o %D", "4\n")
    whole(site, "early", "w03")
    site.becomes("head", "sacct -nPX --user ada --name early -o jobname,state || :", "early|COMPLETED\n")
    assert json.loads(site.cli("plan", "BLUEPRINT", "--json").stdout)["steps"] == []


def test_slurmctld_s_own_metrics_are_for_hpcforge_alone(site: Site) -> None:
    site.becomes("head", "grep -c '^slurm_bf_active ' /var/lib/hpcforge_metrics/slurmctld.prom || :", "1\n")
    assert site.ssh("w01", f"python3 -c {shlex.quote(UNSIGNED)}") == "401\n"


def test_where_jobs_run_follows_from_the_topology_of_their_partition(site: Site) -> None:
    text = site.blueprint.read_text()
    assert "  partitions:\n" in text
    site.blueprint.write_text(text.replace("  partitions:\n", PARTITIONS) + NEAR)
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    shown = {name: site.ssh("head", f"scontrol show topology {name}") for name in ("", "block")}
    assert " Nodes=w[01-02]\n" in shown[""]
    assert "SwitchName=lan-spine Level=1 " in shown[""]
    assert "BlockName=lan-leaf-002 BlockIndex=1 Nodes=w[03-04] BlockSize=2\n" in shown["block"]
    site.ssh("head", "sudo scontrol update NodeName=w01 State=DRAIN Reason=topology")
    for partition, nodes in (("main", "w03\nw04\n"), ("near", "w03\nw04\n"), ("plain", "w02\nw03\n")):
        assert site.ssh("head", f"sudo -iu ada srun -p {partition} -N2 hostname | sort") == nodes, partition
    site.ssh("head", "sudo scontrol update NodeName=w01 State=RESUME")
    assert json.loads(site.cli("plan", "BLUEPRINT", "--json").stdout)["steps"] == []
