"""A university's site, unchanged: people of its directory, shares and limits of groups, modules, three kinds of GPUs.

Debian's CUDA toolkit is fetched and unpacked on three nodes, so this runs on demand.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator

import pytest

from tests.support.real_site import Rehearsal
from tests.support.site import REPOSITORY

pytestmark = [pytest.mark.lab, pytest.mark.templates]

# The forms of the blueprint, as public descriptions of universities' clusters have them:
# - faculties with shares, departments below them: hpc.tu-berlin.de, scheduling/fairshare
# - a QOS for each partition, short jobs on idle nodes of others: hpc.ncsu.edu, slurm_resources
# - GPUs at once for each person: hpcc.ucr.edu, queue policies; guiesbibtic.upf.edu, system overview
# - GPUs and jobs by QOS: ryandkuster/2024_10_04_practice_data wiki (ISAAC of Tennessee)
# - jobs of contributors preempt others': docs.gaivi.cse.usf.edu, user manual
# - courses as groups of accounts: docs.hpc.uwec.edu, class-setup; by a reservation: hrz.tu-darmstadt.de,
#   henryiii/pygpu-minicourse (Adroit of Princeton)
# - students' own partition with a short limit: di-uniroma1-hpc-user-guide.netlify.app, cluster architecture
# - generations of GPUs side by side: KFUPM-JRCAI/slurm-users-guide
# - features of nodes: shridharmishra4/slurmOSU (Oregon State)
# - homes over NFS with a quota, scratch on each node: beehive.ttic.edu, sites.google.com/a/case.edu/hpcc
# - ssh to a worker only with a job, modules in scripts: Tufts Cluster Update (2014)
SHIPPED = REPOSITORY / "blueprints" / "campus.yaml"
NODES = "login01,stor01,c01,t01,a01,l01"  # a worker of each kind; the head comes along
DIRECTORY = "-Q -Y EXTERNAL -H ldapi:///"
PEOPLE = "ou=people,dc=hpc,dc=example,dc=edu"
LOG_IN = "ssh -o BatchMode=yes -i ~/theirs"
# A person of the directory who is not in the group that may log in.
GUEST = f"""\
dn: uid=guest,{PEOPLE}
objectClass: inetOrgPerson
objectClass: posixAccount
objectClass: ldapPublicKey
uid: guest
cn: guest
sn: guest
uidNumber: 70001
gidNumber: 70001
homeDirectory: /home/guest
sshPublicKey: KEY
"""
ACCOUNTS = """\
courses|lena|1
courses|student1|1
physics|maria|1
physics|ravi|1
robotics|lena|1
vision|maria|1
vision|tomas|1
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    here = Rehearsal(tmp_path_factory.mktemp("campus"), f"test-campus-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")


def run_as(site: Rehearsal, person: str, command: str) -> str:
    """Run a command of a directory's person on the login node; their homes are on each node's own disk here."""
    return site.inside("login01", f"{LOG_IN} {person}@login01 {shlex.quote(f'cd / && {command}')}")


def refused(site: Rehearsal, person: str, command: str) -> str:
    """Return what a command prints that must fail."""
    return run_as(site, person, f"if {command} 2>&1; then exit 9; fi")


def test_it_comes_up_as_it_is_and_passes_its_tests(site: Rehearsal) -> None:
    up = site.cli("rehearse", "up", str(SHIPPED), "--nodes", NODES)
    for part in ("GPUs", "limits by cgroups", "the site's directory and time", "shared storage, quotas", "CUDA"):
        assert part in up
    said = site.cli("apply", str(SHIPPED), "--yes")
    passed = re.findall(r"^(\w+)  passed  .*? (?:on|of) (\S+)", said, flags=re.MULTILINE)
    assert {*passed} == {
        ("allreduce", "a01"), ("allreduce", "l01"), ("containers", "c01"), ("memory_copy", "a01,l01"),
        ("memory_copy", "c01"), ("memory_copy", "t01"), ("memory_copy", "a01,c01,l01"), ("train_ddp", "a01,l01"),
        ("train_ddp", "c01"),
    }  # fmt: skip


def test_a_second_apply_changes_nothing(site: Rehearsal) -> None:
    assert "Nothing to do on 7 nodes." in site.cli("apply", str(SHIPPED), "--yes")


def test_all_that_differs_from_the_site_is_named(site: Rehearsal) -> None:
    said = site.cli("rehearse", "compare", "--full", str(SHIPPED))
    assert said.endswith("; not explained: 0\n")
    assert "the directory has the people of accounts and reservations: lena, maria, ravi, student1, tomas" in said
    assert "without the quotas of /disks, /homes, /projects; homes are on each node's own disk" in said
    assert "users without a job get into workers, too" in said


def test_people_of_the_directory_log_in_who_are_in_its_group(site: Rehearsal) -> None:
    site.inside("login01", "ssh-keygen -q -t ed25519 -N '' -f ~/theirs")
    key = site.inside("login01", "cat ~/theirs.pub").strip()
    keys = "\n\n".join(
        f"dn: uid={person},{PEOPLE}\nchangetype: modify\nadd: sshPublicKey\nsshPublicKey: {key}"
        for person in ("maria", "lena", "ravi", "student1", "tomas")
    )
    site.inside("head01", f"sudo ldapmodify {DIRECTORY} <<'END'\n{keys}\nEND")
    site.inside("head01", f"sudo ldapadd {DIRECTORY} <<'END'\n{GUEST.replace('KEY', key)}END")
    assert run_as(site, "maria", "id -un; id -Gn; echo ~").split() == ["maria", "maria", "hpc", "/home/maria"]
    site.becomes("login01", "id -un guest", "guest\n")
    site.inside("login01", f"! {LOG_IN} guest@login01 true")


def test_accounts_have_their_shares_and_their_people(site: Rehearsal) -> None:
    people = "lena,maria,ravi,student1,tomas"
    shown = f"sudo sacctmgr -nP show assoc where user={people} format=account,user,fairshare | sort"
    assert site.inside("head01", shown) == ACCOUNTS
    shown = "sudo sshare -nPA vision,robotics,courses -o account,user,rawshares"
    shares = site.inside("head01", shown).splitlines()
    assert {"vision||2", "robotics||1", "courses||5"} <= {line.strip() for line in shares}
    environment = run_as(site, "maria", "srun -p gpu --gpus=l40s:2 env").splitlines()
    assert {"SLURM_JOB_ACCOUNT=vision", "SLURMD_NODENAME=l01", "USER=maria"} <= {*environment}
    assert "SLURM_JOB_ACCOUNT=physics" in run_as(site, "maria", "srun -A physics -p gpu -C ampere env").splitlines()
    assert "Invalid account" in refused(site, "ravi", "srun -A vision true")
    assert "Invalid qos" in refused(site, "lena", "srun -A robotics -p gpu --qos=deadline true")


def test_limits_and_priorities_of_jobs_hold(site: Rehearsal) -> None:
    shards = "sbatch --parsable -D / -o /dev/null -p teaching --gres=shard"
    many = run_as(site, "student1", f"{shards}:5 --wrap true").strip()
    site.becomes("head01", f"squeue -h -j {many} -o '%T %r'", "PENDING QOSMaxGRESPerUser\n")
    few = run_as(site, "student1", f"{shards}:4 --wrap 'sleep 600'").strip()
    site.becomes("head01", f"squeue -h -j {few} -o '%T %q'", "RUNNING course\n")
    batch = "sbatch --parsable -D / -o /dev/null -p gpu --gpus=l40s:4 --wrap 'sleep 600'"
    idle = run_as(site, "ravi", f"{batch} --qos=scavenger".replace("--wrap", "--requeue --wrap")).strip()
    site.becomes("head01", f"squeue -h -j {idle} -o %T", "RUNNING\n")
    first = run_as(site, "tomas", batch).strip()
    site.becomes("head01", f"squeue -h -j {first} -o %T", "RUNNING\n")
    assert site.inside("head01", f"squeue -h -j {idle} -o %T") == "PENDING\n"
    site.inside("head01", f"sudo scancel {many} {few} {idle} {first}")


def test_modules_and_containers_are_there_for_jobs(site: Rehearsal) -> None:
    listed = run_as(site, "maria", "srun -p gpu -C ada bash -c 'module -t avail 2>&1'").split()
    assert {"cuda/12.4", "gcc/13", "gcc/14", "openmpi/debian-13"} <= {name.removesuffix("(default)") for name in listed}
    compiled = "module load gcc/14 cuda; $CC -dumpversion; nvcc --version | grep -o release.12.4"
    assert run_as(site, "maria", f"srun -p gpu -C ada bash -c '{compiled}'").split("\n")[:2] == ["14", "release 12.4"]
    assert run_as(site, "maria", "srun -p cpu apptainer --version").startswith("apptainer version 1.")


def test_alerts_go_to_the_channel(site: Rehearsal) -> None:
    assert "channel: '#hpc-alerts'" in site.inside("head01", "sudo cat /etc/prometheus/alertmanager.yml").replace(
        '"', "'"
    )
    site.becomes("head01", "sudo systemctl is-active prometheus-alertmanager", "active\n")


def test_a_reservation_keeps_a_node_for_the_course(site: Rehearsal) -> None:
    shown = site.inside("head01", "scontrol -o show reservation ml-course 2>&1 || :")
    assert "Nodes=t01" in shown and "Accounts=courses" in shown
