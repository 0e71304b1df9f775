"""Accounts are in Slurm's database as the blueprint has them: real MariaDB, slurmdbd and slurmctld of Debian 12."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.site import Site

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: accounted
domain: accounted.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head, login], hardware: rehearsal-node, addresses: 10.77.12.10}
  w01: {functions: [worker], hardware: rehearsal-node, addresses: 10.77.12.11, gpus: {model: fake, count: 2}}
networks: {mgmt: {cidr: 10.77.12.0/24}}
services: {dns: {on: head}, time: {on: head}, accounting: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions:
    main: {nodes: all, default: true, billing: {cpu: 1, memory_gib: 0.25, gpu: 16}}
    urgent: {nodes: all, qos: high}
    picky: {nodes: all, settings: {AllowQos: "normal,low"}}
  qos:
    low: {}
    high: {priority: 100, preempt: [normal], max_tres: {node: 4, gpu: 8}, max_wall: "1-00:00:00"}
  accounts:
    research: {fairshare: 60, grp_tres: {memory_gib: 1537, gpu: 4}, qos: [normal, high], users: {ada: {}}}
users:
  ada: {uid: 2001}
  bob: {uid: 2002}
"""
SHOWN = "sudo sacctmgr -nP show association wopl format=account,user,fairshare"


@pytest.fixture
def accounted(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "blueprints").mkdir()
    (tmp_path / "blueprints" / "rehearsal.yaml").write_text(BLUEPRINT)
    here = Site(tmp_path, f"test-accounting-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")


def edited(site: Site, old: str, new: str) -> None:
    text = site.blueprint.read_text()
    assert text.count(old) == 1
    site.blueprint.write_text(text.replace(old, new))


def planned(site: Site) -> dict[str, list[str]]:
    """What a plan says of each role, by its heading without reasons; nothing where nothing is to be done."""
    done = site.cli("plan", "BLUEPRINT")
    if done.returncode == 0:
        return {}
    paragraphs = [word.splitlines() for word in done.stdout.split("\n\n")]
    return {heading.partition("  ")[0]: [line.strip() for line in lines] for heading, *lines in paragraphs if lines}


def applied(site: Site) -> subprocess.CompletedProcess[str]:
    return site.cli("apply", "BLUEPRINT", "--yes")


def changed_since(site: Site, before: str) -> list[str]:
    """What slurmdbd was told to do since: one line a kind of thing that a command made."""
    said = site.ssh("head", f"sudo sacctmgr -nP show transactions start={before} format=action,where,info")
    return [line.partition("|")[0] for line in said.splitlines()]


def a_job(site: Site, user: str, *options: str) -> str:
    """Its number, once it is over."""
    return site.ssh("head", f"sudo -iu {user} sbatch --parsable --wait {' '.join(options)} --wrap 'sleep 1'").strip()


RESERVED = "sudo scontrol -o show reservation | sed -E 's/NodeCnt=.*Flags=/Flags=/; s/TRES=[^ ]* //; s/ Groups=.*//'"


def reserved_and_forgotten(site: Site) -> None:
    """Reservations are made, held to what the blueprint says, and gone with it; one that is over is not missed."""
    over, begun = (site.ssh("head", f"date -d '{ago} minutes ago' +%FT%H:%M").strip() for ago in (90, 30))
    said = f"""  reservations:
    upgrade: {{nodes: all, start: 2037-03-01T08:00, duration: "4:00:00", flags: [maint, ignore_jobs]}}
    course: {{nodes: w01, start: {begun}, duration: "2-00:00:00", users: [ada], accounts: [research]}}
    past: {{nodes: w01, start: {over}, duration: "1:00:00", users: [ada]}}
"""
    edited(site, "  accounts:\n", f"{said}  accounts:\n")
    assert planned(site)["slurm_reservations"] == [
        "+ reservation upgrade nodes=w01 start=2037-03-01T08:00:00 minutes=240 users=root flags=maint,ignore_jobs",
        f"+ reservation course nodes=w01 start={begun}:00 minutes=2880 users=ada accounts=research",
    ]
    assert applied(site).returncode == 0
    assert planned(site) == {}
    upgrade, course = sorted(site.ssh("head", RESERVED).splitlines(), reverse=True)
    assert upgrade.split() == [
        "ReservationName=upgrade", "StartTime=2037-03-01T08:00:00", "EndTime=2037-03-01T12:00:00", "Duration=04:00:00",
        "Nodes=w01", "Flags=MAINT,IGNORE_JOBS,SPEC_NODES", "Users=root",
    ]  # fmt: skip
    assert (
        site.ssh("head", f"date -d '{begun} 2 days' +EndTime=%FT%T").strip() in course
    )  # it begins late, ends in time
    of_ada = a_job(site, "ada", "--reservation=course", "--time=5")
    site.becomes("head", f"sudo sacct -nPX -j {of_ada} -o state,reservation", "COMPLETED|course\n")

    # What somebody changed by hand is drift, and so is what is gone; a reservation that leaves the blueprint goes.
    site.ssh("head", "sudo scontrol update ReservationName=upgrade Duration=60 Users=ada Flags-=ignore_jobs")
    assert planned(site)["slurm_reservations"] == [
        "~ reservation upgrade endtime=2037-03-01T12:00:00 users=root flags=maint,ignore_jobs  "
        "(endtime=2037-03-01T09:00:00 users=ada flags=maint in Slurm)"
    ]
    assert applied(site).returncode == 0
    assert sorted(site.ssh("head", RESERVED).splitlines(), reverse=True)[0] == upgrade
    site.ssh("head", "sudo scontrol delete ReservationName=upgrade")
    header, upgrade_said, course_said, past_said = said.splitlines(keepends=True)
    edited(site, course_said, "")
    told = planned(site)
    assert told["slurm_reservations"][0].startswith("+ reservation upgrade ")
    assert told["no longer wanted"] == ["- slurm_reservations: reservation course"]
    assert applied(site).returncode == 0
    assert site.ssh("head", RESERVED).strip() == upgrade
    edited(site, header + upgrade_said + past_said, "")
    assert applied(site).returncode == 0
    assert site.ssh("head", "sudo scontrol -o show reservation") == "No reservations in the system\n"
    assert planned(site) == {}


def partition_and_its_qos_come_and_go(site: Site) -> None:
    """slurmctld ends where a partition names a QOS that the database lacks, so that one comes first and goes last."""
    partition, qos = "    brief: {nodes: all, qos: short}\n", "    short: {max_tres: {gpu: 1}}\n"
    edited(site, "  qos:\n", f"{partition}  qos:\n{qos}")
    assert planned(site)["slurm_accounts"] == ["+ qos short maxtres=gres/gpu=1"]
    assert applied(site).returncode == 0
    assert planned(site) == {}
    assert " QoS=short " in site.ssh("head", "sudo scontrol -o show partition brief")
    edited(site, partition, "")
    edited(site, qos, "")
    assert planned(site)["no longer wanted"] == ["- slurm_accounts: qos short"]
    assert applied(site).returncode == 0
    assert planned(site) == {}
    assert sorted(site.ssh("head", "sudo sacctmgr -nP show qos format=name").split()) == ["high", "low", "normal"]


TESTS = "acceptance: {run_as: ada, tests: {node_health: {nodes: all}}}\n"


def no_group_is_charged_for_tests(site: Site) -> None:
    """Who runs the tests is in a group, and its usage does not grow by them."""
    site.blueprint.write_text(site.blueprint.read_text() + TESTS)
    assert planned(site)["slurm_accounts"] == [
        "+ account hpcforge_tests",
        "+ user ada account=hpcforge_tests",
    ]
    site.cli("apply", "BLUEPRINT", "--yes")
    site.cli("verify", "BLUEPRINT")
    assert planned(site) == {}
    ran = "sudo sacct -nPX -a -S now-1hours -o jobname,account | grep ^hpcforge- | sort -u || :"
    site.becomes("head", ran, "hpcforge-node_health|hpcforge_tests\n")
    a_job(site, "ada")
    site.becomes("head", "sudo sacct -nPX -u ada -o account | tail -n 1", "research\n")
    edited(site, TESTS, "")
    assert applied(site).returncode == 0
    assert planned(site) == {}
    assert site.ssh("head", SHOWN).splitlines() == ["root||1", "root|root|1", "research||60", "research|ada|1"]


def test_accounts_are_reconciled_and_history_stays(accounted: Site) -> None:
    site = accounted
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    assert applied(site).returncode == 0
    assert planned(site) == {}  # also where Slurm shows 1537 GiB and a day in its own way
    partition_and_its_qos_come_and_go(site)
    no_group_is_charged_for_tests(site)

    # Who logs in to a login node is in a slice of systemd's, which has its share; root's has none.
    assert "/user.slice/user-" in site.ssh("head", "cat /proc/self/cgroup")
    shares = "systemctl show -P TasksMax user-2001.slice; systemctl show -P MemoryMax user-0.slice"
    assert site.ssh("head", shares).split() == ["1024", "infinity"]

    # An account and its users are commands of sacctmgr's, one each, and Slurm's controller does not notice.
    pid = site.ssh("head", "systemctl show -P MainPID slurmctld; date +%FT%T; sleep 1")
    edited(
        site,
        "users: {ada: {}}}\n",
        "users: {ada: {}}}\n    vision: {parent: research, users: {bob: {fairshare: 10}}}\n",
    )
    assert planned(site)["slurm_accounts"] == [
        "+ account vision parent=research",
        "+ user bob account=vision fairshare=10",
    ]
    assert applied(site).returncode == 0
    main_pid, since = pid.split()
    assert site.ssh("head", "systemctl show -P MainPID slurmctld").strip() == main_pid
    asked = ["Add Accounts", "Add Associations", "Add Users", "Add Associations"]
    assert sorted(changed_since(site, since)) == sorted(asked)

    # Jobs are for users who are in an account.
    of_ada, of_bob = a_job(site, "ada", "--gres=gpu:1", "--qos=high"), a_job(site, "bob")
    refused = site.cli("rehearse", "ssh", "head", "--", "sudo -iu bob sbatch --account=research --wrap true")
    assert refused.returncode != 0
    assert "Invalid account" in refused.stderr
    # What a job began with is told every five seconds: of one that took less, at first its end alone is there.
    history = f"sudo sacct -nPX -j {of_ada},{of_bob} -o user,account,qos,state"
    site.becomes("head", history, "ada|research|high|COMPLETED\nbob|vision|normal|COMPLETED\n")
    tres = f"sudo sacct -nPX -j {of_ada} -o alloctres | grep -o -e '^billing=17,' -e 'gres/gpu=1' || :"
    site.becomes("head", tres, "billing=17,\ngres/gpu=1\n")  # a thread, a GPU, and part of a GiB

    reserved_and_forgotten(site)

    # What somebody changed by hand is drift, and what is no longer wanted goes; jobs that ran for it do not.
    site.ssh("head", "sudo sacctmgr -i modify user where name=ada account=research set fairshare=7 maxjobs=3")
    site.ssh("head", "sudo sacctmgr -i modify account where name=research set grptres=cpu=5")
    edited(site, "    vision: {parent: research, users: {bob: {fairshare: 10}}}\n", "")
    told = planned(site)
    assert told["slurm_accounts"] == [
        "~ account research grptres=mem=1537G,gres/gpu=4,cpu=-1  (grptres=cpu=5,gres/gpu=4,mem=1537G in the database)",
        "~ user ada account=research fairshare=1 maxjobs=-1  (fairshare=7 maxjobs=3 in the database)",
    ]
    assert told["no longer wanted"] == [
        "- slurm_accounts: account vision; its jobs stay in sacct",
        "- slurm_accounts: user bob account=vision; its jobs stay in sacct",
    ]

    # The database is down: Slurm goes on, a plan says what it cannot tell, and an apply has it back.
    site.ssh("head", "sudo systemctl stop mariadb")
    meanwhile = a_job(site, "ada")
    silent = "its state is unknown: the accounting database does not answer"
    told = planned(site)
    start, run = told["slurm_database"]
    assert start == "~ unit mariadb.service: start (inactive)"
    assert re.fullmatch(
        r"! run ansible code \w+ with community.mysql [\d.]+ \(check failed: the database answers\)", run
    )
    assert told["slurm_accounts"] == [
        f"? qos low: {silent}",
        f"? qos high: {silent}",
        f"? account research: {silent}",
        f"? user ada account=research: {silent}",
    ]
    assert applied(site).returncode == 0
    assert planned(site) == {}
    assert site.ssh("head", SHOWN).splitlines() == ["root||1", "root|root|1", "research||60", "research|ada|1"]
    site.becomes(
        "head", f"sudo sacct -nPX -j {of_bob},{meanwhile} -o account,state", "vision|COMPLETED\nresearch|COMPLETED\n"
    )

    # The password is in the two files that hold it, and nowhere else on the node: neither in a log nor in the receipt.
    password = "sudo sed -n s/^StoragePass=//p /etc/slurm/slurmdbd.conf"
    assert site.ssh("head", f"{password} | wc -c") == "41\n"
    found = f"{password} | sudo grep -rlF -f - /etc /var/log /var/lib/hpcforge /run 2>/dev/null | sort"
    assert site.ssh("head", found).split() == ["/etc/mysql/hpcforge_slurm.cnf", "/etc/slurm/slurmdbd.conf"]

    # Without the service Slurm is as it was; what the database has stays there.
    edited(site, ", accounting: {on: head}", "")
    edited(site, ", billing: {cpu: 1, memory_gib: 0.25, gpu: 16}", "")
    text = site.blueprint.read_text()
    site.blueprint.write_text(text[: text.index("    urgent:")] + text[text.index("users:\n  ada") :])
    gone = site.cli("plan", "BLUEPRINT").stdout
    assert "- slurm_accounts: everything stays, and hpcforge watches it no longer" in gone
    assert "= stays: /var/lib/mysql: the accounting database" in gone
    assert applied(site).returncode == 0
    assert planned(site) == {}
    assert site.ssh("head", "grep -c Accounting /etc/slurm/slurm.conf || :") == "0\n"
    a_job(site, "bob")
    assert "accounted_job_table.frm" in site.ssh("head", "sudo ls /var/lib/mysql/slurm_acct_db")


DUMP = "sudo sh -c 'umask 077; mariadb-dump --single-transaction slurm_acct_db > /root/older.sql'"
# As docs/operations.md has it.
RESTORE = """sudo sh -c 'set -e
systemctl stop slurmdbd
mariadb slurm_acct_db < /root/older.sql
for table in accounted_job_table:1000000 accounted_assoc_table:10000 qos_table:1000; do
  next=$(mariadb -N -e "SELECT AUTO_INCREMENT FROM information_schema.TABLES
    WHERE TABLE_SCHEMA = \\"slurm_acct_db\\" AND TABLE_NAME = \\"${table%:*}\\"")
  mariadb slurm_acct_db -e "ALTER TABLE ${table%:*} AUTO_INCREMENT = $((next + ${table#*:}))"
done
systemctl start slurmdbd'
"""
ANSWERS = "sudo sacctmgr -nP show cluster format=cluster || :"
TRES = "sudo sacctmgr -nP show tres format=type,name,id"


def test_an_older_database_is_restored_and_mended(accounted: Site) -> None:
    site = accounted
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    assert applied(site).returncode == 0
    site.ssh("head", DUMP)
    edited(
        site,
        "users: {ada: {}}}\n",
        "users: {ada: {}}}\n    vision: {parent: research, users: {bob: {fairshare: 10}}}\n",
    )
    assert applied(site).returncode == 0
    before = a_job(site, "bob")
    tres = site.ssh("head", TRES)
    cluster = site.ssh("head", ANSWERS)
    site.ssh("head", RESTORE)
    site.becomes("head", ANSWERS, cluster)  # slurmdbd takes a moment to listen
    told = planned(site)
    assert told["slurm_accounts"] == ["+ account vision parent=research", "+ user bob account=vision fairshare=10"]
    assert "slurmctld has the accounts and QOS that the database has" in " ".join(told["slurm_controller"])
    assert applied(site).returncode == 0
    assert planned(site) == {}
    assert site.ssh("head", TRES) == tres
    assert int(a_job(site, "bob")) > int(before)  # jobs are numbered by slurmctld, and go on
