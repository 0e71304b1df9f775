"""People of a directory in `slurm.accounts`, and partitions that are theirs.

Who is not known on the controller is named, and who is may run jobs. A partition's settings decide whose jobs go first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.people import enter
from tests.support.site import Site

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: people
domain: full.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.78.0.10}
  w01: {functions: [worker], hardware: rehearsal-node, addresses: 10.78.0.11}
networks: {mgmt: {cidr: 10.78.0.0/23}}
services: {dns: {on: head}, time: {on: head}, accounting: {on: head}, directory: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
  accounts: {research: {users: {ada: {}, grace: {fairshare: 10}}}}
users: {ada: {uid: 2001}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("people")
    (folder / "blueprints").mkdir()
    (folder / "blueprints" / "rehearsal.yaml").write_text(BLUEPRINT)
    here = Site(folder, f"test-people-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


def test_somebody_who_is_not_in_the_directory_is_named_and_who_is_may_run_jobs(site: Site) -> None:
    first = site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none")
    assert first.returncode == 5
    assert "grace is not known: neither a user of this node nor in the directory" in first.stdout + first.stderr
    assert "ada is not known" not in first.stdout + first.stderr

    shown = "sacctmgr -nP show assoc user=grace format=account,user,fairshare"
    assert site.ssh("head", shown) == ""  # slurmctld would remember that she has no number

    enter(site)
    site.becomes("head", "getent passwd grace | cut -d: -f3", "5001\n")  # SSSD asks again after a while
    assert "+ user grace account=research fairshare=10" in site.cli("plan", "BLUEPRINT").stdout
    assert site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none").returncode == 0
    assert site.ssh("head", shown) == "research|grace|10\n"
    assert site.ssh("head", "sudo -u grace srun -D / -w w01 id -un") == "grace\n"
    assert site.cli("plan", "BLUEPRINT").returncode == 0


PARTITIONS = """  settings: {PreemptType: preempt/partition_prio, PreemptMode: REQUEUE}
  partitions:
    main: {nodes: all, default: true, max_time: "30-00:00:00"}
    Express.q:
      nodes: w01
      max_time: "3-00:00:00"
      settings: {PriorityTier: 10, PreemptMode: "OFF", AllowAccounts: research, OverSubscribe: FORCE}
  accounts: {research: {users: {ada: {}, grace: {fairshare: 10}}}, guests: {users: {ada: {}}}}
"""


def changed(site: Site, *changes: tuple[str, str]) -> str:
    """What a plan says of the blueprint with these changes, which are then made."""
    text = site.blueprint.read_text()
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    site.blueprint.write_text(text)
    plan = site.cli("plan", "BLUEPRINT").stdout
    assert site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none").returncode == 0
    assert site.cli("plan", "BLUEPRINT").returncode == 0
    return plan


def fields(site: Site, shown: str, *names: str) -> dict[str, str]:
    """What scontrol shows of these."""
    words = dict(word.partition("=")[::2] for word in site.ssh("head", f"sudo scontrol -o show {shown}").split())
    return {name: words[name] for name in names}


def test_a_job_makes_way_for_one_of_a_partition_that_goes_first(site: Site) -> None:
    before = site.blueprint.read_text()
    start = before.index("  partitions:")
    told = changed(
        site,
        (before[start : before.index("users: {ada: {uid")], PARTITIONS),
        ("addresses: 10.78.0.11}", "addresses: 10.78.0.11, features: [Fast_disk, ib], weight: 5}"),
    )
    assert " Feature=Fast_disk,ib Weight=5 " in told
    assert " PriorityTier=10 PreemptMode=OFF AllowAccounts=research OverSubscribe=FORCE " in told
    assert fields(site, "partition Express.q", "PriorityTier", "PreemptMode", "AllowAccounts", "OverSubscribe") == {
        "PriorityTier": "10", "PreemptMode": "OFF", "AllowAccounts": "research", "OverSubscribe": "FORCE:4",
    }  # fmt: skip
    assert fields(site, "node w01", "AvailableFeatures", "ActiveFeatures", "Weight") == {
        "AvailableFeatures": "Fast_disk,ib", "ActiveFeatures": "Fast_disk,ib", "Weight": "5",
    }  # fmt: skip
    batch = "sbatch --parsable -D / -o /dev/null --exclusive --mem=0"
    long = site.ssh("head", f"sudo -u ada {batch} --constraint=Fast_disk --wrap 'sleep 900'").strip()
    state = f"squeue -h -j {long} -o %T"
    site.becomes("head", state, "RUNNING\n")

    refused = site.cli("rehearse", "ssh", "head", "--", f"sudo -u ada {batch} -p Express.q -A guests --wrap true")
    assert refused.returncode != 0
    assert "Invalid account or account/partition combination" in refused.stderr
    nowhere = site.cli("rehearse", "ssh", "head", "--", f"sudo -u ada {batch} -C slow --wrap true")
    assert "Invalid feature specification" in nowhere.stderr

    first = site.ssh("head", f"sudo -u grace {batch} -p Express.q --wrap 'sleep 900'").strip()
    site.becomes("head", f"squeue -h -j {first} -o '%T %P'", "RUNNING Express.q\n")
    assert site.ssh("head", state) == "PENDING\n"
    assert fields(site, f"job {long}", "Restarts") == {"Restarts": "1"}

    # A partition's setting needs no other slurmctld, and jobs go on through a node's, which may.
    pid = "systemctl show -P MainPID slurmctld"
    main_pid = site.ssh("head", pid)
    changed(site, ("PriorityTier: 10", "PriorityTier: 11"))
    assert fields(site, "partition Express.q", "PriorityTier") == {"PriorityTier": "11"}
    assert site.ssh("head", pid) == main_pid
    changed(site, ("[Fast_disk, ib], weight: 5", "[ib], weight: 6"))
    assert fields(site, "node w01", "ActiveFeatures", "Weight") == {"ActiveFeatures": "ib", "Weight": "6"}
    assert site.ssh("head", f"squeue -h -j {first} -o %T") == "RUNNING\n"
    site.ssh("head", f"sudo scancel {long} {first}")
    assert "w01" in site.cli("plan", "BLUEPRINT", "--limit", "Express.q", "--json").stdout
