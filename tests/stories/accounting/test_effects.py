"""What a blueprint declares, Slurm does: the order of jobs, limits, preemption, measured memory, a private history.

Rows of hpcforge/slurm/second_settings.yaml name these tests.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.site import Site

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: effects
domain: effects.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.77.14.10}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2},
    addresses: "10.77.14.[11-12]"}
networks: {mgmt: {cidr: 10.77.14.0/24}}
services: {dns: {on: head}, time: {on: head}, accounting: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  settings:
    {PriorityCalcPeriod: 1, MaxArraySize: 10, Licenses: "solver:1", PrivateData: "jobs,usage", TrackWCKey: "yes"}
  partitions:
    main: {nodes: all, default: true, max_time: "10:00:00"}
    fast: {nodes: all, settings: {PriorityJobFactor: 10}}
  qos:
    low: {}
    high: {priority: 10}
    urgent: {preempt: [low]}
  accounts:
    research: {fairshare: 60, grp_tres: {gpu: 1}, qos: [normal, high, urgent], users: {ada: {}}}
    vision: {fairshare: 60, max_wall: "1:00:00", qos: [normal, high, low], users: {bob: {}}}
users:
  ada: {uid: 2001}
  bob: {uid: 2002}
"""
ALL = "-N2 --mem=0"  # all memory of both nodes; with --exclusive their GPUs would count against a limit


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("effects")
    (folder / "blueprints").mkdir()
    (folder / "blueprints" / "rehearsal.yaml").write_text(BLUEPRINT)
    here = Site(folder, f"test-effects-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        first = here.cli("plan", "BLUEPRINT").stdout
        weights = "PriorityWeightFairshare=10000, PriorityWeightQOS=100000, PriorityWeightPartition=100000"
        assert f"{weights}: chosen by hpcforge" in first
        assert here.cli("apply", "BLUEPRINT", "--yes").returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


@pytest.fixture
def empty(site: Site) -> Iterator[Site]:
    """The site, without jobs before and after."""
    yield site
    site.ssh("head", "sudo scancel -u ada; sudo scancel -u bob")
    site.becomes("head", "sudo squeue -h", "")


def queued(site: Site, user: str, options: str, program: str = "sleep 900") -> str:
    """The number of a job."""
    batch = f"sbatch --parsable -D /tmp -o /dev/null --mem=200 {options} --wrap '{program}'"
    return site.ssh("head", f"sudo -u {user} {batch}").strip()


def refused(site: Site, user: str, options: str) -> str:
    done: subprocess.CompletedProcess[str] = site.cli(
        "rehearse", "ssh", "head", "--", f"sudo -u {user} sbatch -D /tmp {options} --wrap true"
    )
    assert done.returncode != 0
    return done.stderr


def runs(site: Site, job: str) -> None:
    site.becomes("head", f"sudo squeue -h -j {job} -o %T", "RUNNING\n")


def waits(site: Site, job: str, reason: str) -> None:
    site.becomes("head", f"sudo squeue -h -j {job} -o '%T %r'", f"PENDING {reason}\n")


def over_mib(command: str, mib: int) -> str:
    """A command that prints 1 where another prints an amount above this."""
    return f"{command} | numfmt --from=iec | awk '{{ print ($1 > {mib << 20}) }}'"


def test_the_memory_of_a_job_is_measured(empty: Site) -> None:
    holds = 'import os,time; x = bytearray(150 << 20)\nwhile not os.path.exists("/tmp/measured"): time.sleep(0.2)'
    empty.ssh("w01", f"cat > /tmp/holds.py <<'END'\n{holds}\nEND")
    job = queued(empty, "ada", "-w w01 --acctg-freq=task=1", "srun --acctg-freq=task=1 python3 /tmp/holds.py")
    empty.becomes("head", over_mib(f"sudo sstat -nP -j {job}.0 -o maxrss", 150), "1\n")
    empty.ssh("w01", "touch /tmp/measured")
    empty.becomes("head", f"sudo sacct -nPX -j {job} -o state", "COMPLETED\n")
    empty.becomes("head", over_mib(f"sudo sacct -nP -j {job}.0 -o maxrss", 150), "1\n")


@pytest.mark.parametrize("higher", ["--qos=high", "-p fast"])
def test_a_job_of_higher_priority_comes_first(empty: Site, higher: str) -> None:
    before = queued(empty, "bob", ALL)
    runs(empty, before)
    usual, first = queued(empty, "bob", ALL), queued(empty, "bob", f"{ALL} {higher}")
    empty.ssh("head", f"sudo scancel {before}")
    runs(empty, first)
    assert empty.ssh("head", f"sudo squeue -h -j {usual} -o %T") == "PENDING\n"


def test_who_used_less_of_their_share_comes_first(empty: Site) -> None:
    before = queued(empty, "ada", ALL)
    runs(empty, before)
    empty.ssh("head", "sudo sacctmgr -i modify account where name=vision set rawusage=0")  # bob had the jobs above
    of_ada, of_bob = queued(empty, "ada", ALL), queued(empty, "bob", ALL)
    order = f"sudo sprio -h --sort=-Y -j {of_ada},{of_bob} -o %i | tr -d ' '"
    empty.becomes("head", order, f"{of_bob}\n{of_ada}\n")  # usage is counted once a minute
    empty.ssh("head", f"sudo scancel {before}")
    runs(empty, of_bob)
    assert empty.ssh("head", f"sudo squeue -h -j {of_ada} -o %T") == "PENDING\n"


def test_a_limit_holds(empty: Site) -> None:
    first, second = (queued(empty, "ada", "--gres=gpu:1") for _ in range(2))
    runs(empty, first)
    waits(empty, second, "AssocGrpGRES")
    long = queued(empty, "bob", "-t 2:00:00")
    waits(empty, long, "AssocMaxWallDurationPerJobLimit")
    assert "Requested time limit is invalid" in refused(empty, "ada", "-t 20:00:00")
    assert "Invalid qos specification" in refused(empty, "ada", "--qos=low")


@pytest.mark.parametrize("node", ["head", "w01"])
def test_processes_may_take_long_enough_to_end(empty: Site, node: str) -> None:
    shown = empty.ssh(node, "sudo scontrol show config")
    times = {words[0]: words[2] for words in map(str.split, shown.splitlines()) if len(words) > 2}
    assert int(times["UnkillableStepTimeout"]) == 5 * int(times["MessageTimeout"]) == 150


def test_a_job_is_preempted_and_queued_again(empty: Site) -> None:
    low = queued(empty, "bob", f"{ALL} --qos=low")
    runs(empty, low)
    urgent = queued(empty, "ada", f"{ALL} --qos=urgent")
    runs(empty, urgent)
    assert empty.ssh("head", f"sudo squeue -h -j {low} -o %T") == "PENDING\n"
    assert " Restarts=1 " in empty.ssh("head", f"sudo scontrol -o show job {low}")


def test_an_array_has_its_limit(empty: Site) -> None:
    assert queued(empty, "ada", "--array=0-9")
    assert "Invalid job array specification" in refused(empty, "ada", "--array=0-10")


def test_a_licence_is_one_job_s_at_a_time(empty: Site) -> None:
    first, second = (queued(empty, "ada", "-L solver") for _ in range(2))
    runs(empty, first)
    waits(empty, second, "Licenses")
    empty.ssh("head", f"sudo scancel {first}")
    runs(empty, second)


def test_jobs_of_others_are_private_in_the_history_too(empty: Site) -> None:
    queued(empty, "ada", "--wckey=grant", "true")
    whose = "sacct -nPXa -S 2020-01-01 -o user,wckey | sort -u"
    empty.becomes("head", f"sudo {whose} | grep -c grant", "1\n")
    assert "ada" not in empty.ssh("head", f"sudo -u bob {whose}")
    assert "ada" in empty.ssh("head", f"sudo -u ada {whose}")
    assert "TrackWCKey             = Yes" in empty.ssh("head", "sudo sacctmgr show configuration")


def test_reserved_nodes_are_for_those_whom_the_blueprint_names(empty: Site) -> None:
    begun = empty.ssh("head", "date -d '10 minutes ago' +%FT%H:%M").strip()
    course = f'  reservations: {{course: {{nodes: w02, start: {begun}, duration: "1-00:00:00", users: [ada]}}}}\n'
    text = empty.blueprint.read_text()
    empty.blueprint.write_text(text.replace("  qos:\n", f"{course}  qos:\n", 1))
    assert empty.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    of_bob, of_ada = queued(empty, "bob", "-w w02"), queued(empty, "ada", "-w w02 --reservation=course")
    runs(empty, of_ada)
    assert empty.ssh("head", f"sudo squeue -h -j {of_bob} -o %T") == "PENDING\n"
    assert empty.cli("plan", "BLUEPRINT").returncode == 0
