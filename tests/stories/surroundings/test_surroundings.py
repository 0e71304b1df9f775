"""What stands around Slurm, on real nodes of both releases: logs, a firewall, health, REST, people, cron jobs.

On Debian 12 it is the shipped `full-lab.yaml`, with files of a server, and a day of its users; on Debian 13 a smaller
one, without people of a directory and without accounting.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.file_server import ROLES, copy_roles, serve
from tests.support.leaving import all_of_it_leaves
from tests.support.people import (
    KNOWN,
    LOG_IN,
    WHO,
    another_certificate_is_refused_and_renewed,
    enter,
    logged_in,
    somebody_of_the_node_is_named,
)
from tests.support.site import REPOSITORY, Site

pytestmark = pytest.mark.lab

SMALL = """
schema: 1
name: around
domain: around.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.78.0.10}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}, addresses: "10.78.0.[11-12]"}
networks: {mgmt: {cidr: 10.78.0.0/23}}
services: {dns: {on: head}, time: {on: head}, syslog: {on: head}, rest: {on: w02}}
software: {os: {name: debian, release: "13"}}
roles:
  firewall: {enabled: true}
  hardening: {enabled: true}
  slurm_health: {interval_s: 3600, clean: [/tmp, /dev/shm]}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  settings: {ScronParameters: enable}
  partitions: {main: {nodes: all, default: true}}
users: {ada: {uid: 2001}, bob: {uid: 2002}}
"""
OTHERS = {"g01", "login", "storage", "w02"}  # nodes that a test says nothing of
STRANGER = "198.51.100.8"  # an address of the worker's own that is no node's
TRUSTED = "198.51.100.8/29"  # a network that it is of
# What a job of ada's leaves behind, and a link to what is hers and not in a folder that is cleaned.
LEAVES = """#!/bin/sh
setsid sleep 54321 </dev/null >/dev/null 2>&1 &
mkdir -p /tmp/of_ada/deep && touch /tmp/of_ada/deep/file /dev/shm/of_ada
ln -s /var/tmp/kept /tmp/of_ada/link && ln -s /var/tmp/kept /tmp/link
"""
PRETEND = """
import socket, ssl
trusted = ssl.create_default_context(cafile="/etc/hpcforge/syslog_authority.pem")
trusted.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 has tickets come, and closing before they are read resets
out = trusted.wrap_socket(socket.create_connection(("HEAD", 6514), 5, ("FROM", 0)), server_hostname="head")
out.sendall(b"<13>Nov 22 10:00:00 head su: SAID\\n"); out.close()
"""


# Which of these ports of a host answer a connection from an address of this node.
SCAN = """
import socket, sys
def answers(port):
    with socket.socket() as scan:
        scan.settimeout(5); scan.bind((sys.argv[1], 0))
        return scan.connect_ex((sys.argv[2], port)) == 0
print([port for port in map(int, sys.argv[3:]) if answers(port)])
"""


@pytest.fixture(scope="module", params=["12", "13"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("around")
    (folder / "blueprints").mkdir()
    # Nobody looks at a worker's health by himself before the test of it says so.
    full = (REPOSITORY / "blueprints" / "full-lab.yaml").read_text().replace("interval_s: 60", "interval_s: 3600")
    full = full.replace("roles:\n", ROLES)
    copy_roles("glusterfs", folder / "blueprints")
    (folder / "blueprints" / "rehearsal.yaml").write_text({"12": full, "13": SMALL}[request.param])
    here = Site(folder, f"test-around{request.param}-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        if ROLES in here.blueprint.read_text():
            serve(here)
        assert here.cli("apply", "BLUEPRINT", "--yes").returncode == 0
        _, own = addresses(here)
        here.ssh("w01", f"sudo ip address add {STRANGER}/32 dev lo")
        here.ssh("head", f"sudo ip route add {STRANGER} via {own}")
        yield here
    finally:
        here.cli("rehearse", "down")


def addresses(site: Site) -> tuple[str, str]:
    """Those of the head and of the worker."""
    head = site.ssh("w01", "getent ahostsv4 head").split()[0]
    return head, site.ssh("w01", f"ip -4 -o route get {head}").split(" src ")[1].split()[0]


def pretend(site: Site, head: str, source: str, said: str) -> None:
    """Send a message from an address of the worker's in which it calls itself head."""
    program = PRETEND.replace("HEAD", head).replace("FROM", source).replace("SAID", said)
    site.ssh("w01", f"sudo python3 -c '{program}'")  # users of a node do not reach the log server


def written(site: Site, file: str, message: str) -> None:
    """Wait until it is there, once; sudo logs these commands as well, which hold the same words further back."""
    site.becomes("head", f"sudo grep -cE '^[^ ]+ [^ ]+ {message}' /var/log/cluster/{file} || :", "1\n")


AN_HOUR_EACH = """
UPDATE full_job_table SET time_submit = {hour} - 3600, time_eligible = {hour} - 3600, time_start = {hour} - 3600,
  time_end = {hour} WHERE id_array_job = {job};
UPDATE full_event_table SET time_start = {hour} - 3600 WHERE time_end = 0;
UPDATE full_last_ran_table SET hourly_rollup = {hour} - 3600;
"""


@pytest.fixture(scope="module")
def people(site: Site) -> None:
    """They are in the directory; grace is in an account as well, and has a key where she comes from: the head."""
    if "directory:" not in site.blueprint.read_text():
        pytest.skip(
            "the lab of Debian 13 has neither directory nor accounting: docs/support.md says what was seen there"
        )
    enter(site)
    site.ssh("head", "sudo sacctmgr -i add user grace account=research")


@pytest.mark.usefixtures("people")
def test_somebody_of_the_directory_logs_in_and_finds_what_her_jobs_did(site: Site) -> None:
    site.becomes("login", "getent passwd grace", KNOWN.splitlines(keepends=True)[0])  # SSSD asks again after a while
    assert logged_in(site, "hostname; pwd; sudo -n true 2>/dev/null || echo no") == "login\n/home/grace\nno\n"
    part = "-w w01 --gres=gpu:1 -D / -o /var/tmp/part.%a --wrap 'echo part $SLURM_ARRAY_TASK_ID; id -un'"
    job = logged_in(site, f"sbatch --parsable --wait --array=1-3 {part}").strip()
    look = "srun -w w01 -D / sh -c 'cat /var/tmp/part.*; stat -c %U:%G /var/tmp/part.3'"
    assert logged_in(site, look) == "".join(f"part {one}\ngrace\n" for one in (1, 2, 3)) + "grace:vision\n"
    # slurmctld tells slurmdbd some time after a job's end, and of each part of an array by itself.
    history = f"sacct -nPX -j {job} -o user,account,state,alloctres"
    site.becomes("login", f"{history} | grep -c '^grace|research|COMPLETED|.*gres/gpu=1,' || :", "3\n")
    assert len(logged_in(site, history).splitlines()) == 3

    # GPU hours are counted by whole hours, so cluster and jobs are said to have been there for the one before this.
    # slurmdbd counts when it starts, too; meanwhile it is away, so that it does not count at the turn of an hour.
    hour = int(site.ssh("head", "date +%s")) // 3600 * 3600
    said = f"sudo mariadb slurm_acct_db -e '{AN_HOUR_EACH.format(job=job, hour=hour)}'"
    site.ssh("storage", f"sudo systemctl stop slurmdbd && {said} && sudo systemctl start slurmdbd")
    hours = f"start=$(date -d @{hour - 3600} +%FT%T) end=$(date -d @{hour} +%FT%T)"
    report = f"sreport -nP -T gres/gpu -t Hours cluster AccountUtilizationByUser {hours} format=account,login,used"
    site.becomes("head", f"{report} | grep grace || :", "research|grace|3\n")


@pytest.mark.usefixtures("people")
def test_a_job_that_makes_way_is_queued_again_and_runs(site: Site) -> None:
    job = logged_in(site, "sbatch --parsable --exclusive -w w01 -D / -o /dev/null --wrap 'sleep 600'").strip()
    state = f"squeue -hj {job} -o %T"
    site.becomes("head", state, "RUNNING\n")
    urgent = "sbatch --parsable --wait --qos=urgent --exclusive -w w01 -D / -o /dev/null --wrap true"
    done = site.ssh("head", f"sudo -iu ada {urgent}").strip()
    site.becomes("head", state, "PENDING\n")  # Slurm would begin it again in two minutes
    site.ssh("head", f"sudo scontrol update JobId={job} StartTime=now")
    site.becomes("head", f"sudo sacct -nPX -j {done} -o user,qos,state", "ada|urgent|COMPLETED\n")
    site.becomes("head", state, "RUNNING\n")
    assert " Restarts=1 " in site.ssh("head", f"scontrol --oneliner show job {job}")
    site.ssh("head", f"sudo scancel {job}")
    site.becomes("head", "squeue -h", "")


@pytest.mark.usefixtures("people")
def test_who_has_used_less_comes_first(site: Site) -> None:
    site.ssh("head", "sudo -iu ada sbatch --wait -n1 -D / -o /dev/null --wrap 'sleep 1'")
    logged_in(site, "sbatch --wait --gres=gpu:2 -n1 -D / -o /dev/null --wrap 'sleep 10'")
    until = time.monotonic() + 300  # it is counted once a minute
    while True:
        lines = site.ssh("head", "sshare -nPa -A research -o user,rawusage,fairshare").splitlines()
        shares = {user: (int(used), float(share)) for user, used, share in (line.split("|") for line in lines) if user}
        (of_bob, bob), (of_ada, ada), (of_grace, grace) = (shares[user] for user in ("bob", "ada", "grace"))
        # What a job used is counted as it ends, who comes first some time later.
        if of_bob < of_ada < of_grace and bob > ada > grace:
            return
        assert time.monotonic() < until, shares
        time.sleep(2)


ROTATED = "sudo sh -c 'ls -l /proc/$(systemctl show -P MainPID rsyslog)/fd' | grep -c 'cluster/.*log[.]1' || :"


def test_a_message_is_in_the_file_of_the_node_that_it_came_from(site: Site) -> None:
    site.ssh("w01", "logger -t disk 'sda is failing'")
    written(site, "w01.log", "disk: sda is failing")
    site.ssh("head", "logger -t fan 'fan 2 stopped'")
    written(site, "head.log", "fan: fan 2 stopped")

    # Whose it is follows from where it comes from, not from what it says; a stranger cannot even connect.
    head, own = addresses(site)
    pretend(site, head, own, "forged")
    written(site, "w01.log", "su: forged")
    site.ssh("head", "sudo systemctl stop hpcforge-firewall")
    assert 6514 not in scan(site, STRANGER)
    site.ssh("head", "sudo systemctl start hpcforge-firewall")
    pretend(site, head, own, "afterwards")
    written(site, "w01.log", "su: afterwards")
    logs = {name.removesuffix(".log") for name in site.ssh("head", "sudo ls /var/log/cluster").split()}
    assert logs - OTHERS == {"head", "w01"}
    site.ssh("head", "sudo logrotate -f /etc/hpcforge/cluster_logs.conf")
    site.becomes("head", ROTATED, "0\n")  # rsyslog hears of it by a signal
    pretend(site, head, own, "rotated")
    written(site, "w01.log", "su: rotated")

    assert site.cli("plan", "BLUEPRINT").returncode == 0


def scan(site: Site, source: str) -> list[int]:
    """Ports on which the head answers an address of the worker's, of all on which anything listens there, and one."""
    sockets = site.ssh("head", "ss -Hltn").splitlines()
    ports = {line.split()[3].rpartition(":")[2] for line in sockets if not line.split()[3].startswith("127.")}
    found: list[int] = json.loads(
        site.ssh("w01", f"sudo python3 -c '{SCAN}' {source} {addresses(site)[0]} {' '.join(ports)} 9")
    )
    return sorted(found)


def test_hosts_outside_reach_what_roles_declare_and_nothing_else(site: Site) -> None:
    _, own = addresses(site)
    inside = scan(site, own)
    assert {22, 53, 6514, 6817} <= set(inside)  # ssh, DNS, syslog, slurmctld
    assert 9 not in inside
    assert scan(site, STRANGER) == [22]

    # What somebody opened by hand is seen, and shut again.
    site.ssh("head", "sudo nft insert rule inet hpcforge input tcp dport 6817 accept")
    assert scan(site, STRANGER) == [22, 6817]
    plan = site.cli("plan", "BLUEPRINT")
    assert plan.returncode == 2
    assert "check failed: the rules in force are those that were loaded" in plan.stdout
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert scan(site, STRANGER) == [22]

    # A network that the blueprint trusts is the cluster's own to it; without a firewall everybody is.
    text = site.blueprint.read_text()
    asked = "firewall: {enabled: true"
    site.blueprint.write_text(text.replace(asked, f"{asked}, trusted: [{TRUSTED}]"))
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert scan(site, STRANGER) == [port for port in inside if port != 6514]
    site.blueprint.write_text(text.replace(asked, "firewall: {enabled: false"))
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    left = site.ssh("head", "sudo nft list tables; ls /etc/nftables.d/").splitlines()
    assert left == ["table inet hpcforge_syslog_server", "hpcforge_syslog_server.nft"]
    assert site.cli("plan", "BLUEPRINT").returncode == 0


WAYS_IN = """
sed -i '1i PermitRootLogin yes' /etc/ssh/sshd_config
useradd --no-create-home guest && usermod -p '' guest
useradd --no-create-home --non-unique --uid 0 toor
touch /etc/open && chmod 666 /etc/open
"""
SHUT_AGAIN = "sed -i 1d /etc/ssh/sshd_config; sed -i '/^\\(guest\\|toor\\):/d' /etc/passwd /etc/shadow; rm /etc/open"


def test_ways_in_that_somebody_left_open_are_named(site: Site) -> None:
    heads = site.ssh("head", "sudo sshd -T")
    assert {"passwordauthentication no", "permitrootlogin no", "x11forwarding no"} <= set(heads.splitlines())
    site.ssh("w01", f"sudo sh -c {shlex.quote(WAYS_IN)}")
    plan = site.cli("plan", "BLUEPRINT")
    assert plan.returncode == 2
    said = plan.stdout + plan.stderr
    for why in ("permitrootlogin no$/", "root alone has number 0", "toor", "no account is without", "guest",
                "nothing in /etc can be written by everybody", "/etc/open"):  # fmt: skip
        assert why in said
    site.ssh("w01", f"sudo sh -c {shlex.quote(SHUT_AGAIN)}")
    assert site.cli("plan", "BLUEPRINT").returncode == 0


STATE = "sinfo -hn w01 -o '%T %E'"
FAULT = "hpcforge-health: GPUs 1, declared 2: no /dev/fakegpu1"
BASE_STATE = "sinfo -hn w01 -o %T"  # 24.11 may keep the reason of a drain that is over
TAKE_AWAY = "sudo rm /dev/fakegpu1"
PUT_BACK = "sudo mknod -m 666 /dev/fakegpu1 c 195 1"
WELL = "test -e /run/hpcforge_health.well && echo well || echo ill"  # what the last check found


def test_a_worker_with_a_fault_takes_no_jobs_until_it_is_well(site: Site) -> None:
    # Nobody has looked since: the prolog of the first job does, and the job goes to another worker.
    site.becomes("head", BASE_STATE, "idle\n")
    site.ssh("w01", TAKE_AWAY)
    job = site.ssh("head", "sudo -iu ada sbatch --parsable -D / -o /dev/null --wrap 'sleep 1'").strip()
    site.becomes("head", f"squeue -hj {job} -o '%T %r'", "PENDING BeginTime\n")  # Slurm would begin it in two minutes
    site.ssh("head", f"sudo scontrol update JobId={job} StartTime=now")
    site.becomes("head", STATE, f"drained {FAULT}\n")
    assert FAULT in site.cli("status", "BLUEPRINT").stdout
    ran = f"scontrol show job {job} | grep -oE 'JobState=[A-Z]+|Restarts=[0-9]+| NodeList=[^ ]+' | xargs"
    site.becomes("head", ran, "JobState=COMPLETED Restarts=1 NodeList=w02\n")

    # From now on somebody looks every few seconds, and what was drained so is resumed.
    site.ssh("w01", PUT_BACK)
    text = site.blueprint.read_text()
    site.blueprint.write_text(text.replace("interval_s: 3600", "interval_s: 5"))
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 5  # w01 takes no job yet
    site.becomes("head", BASE_STATE, "idle\n")
    site.ssh("w01", TAKE_AWAY)
    site.becomes("head", STATE, f"drained {FAULT}\n")
    site.ssh("w01", PUT_BACK)
    site.becomes("head", BASE_STATE, "idle\n")

    # What an administrator drained stays so, with a fault and after it.
    site.ssh("head", "sudo scontrol update NodeName=w01 State=DRAIN Reason='fan 2'")
    for change, seen in ((TAKE_AWAY, "ill\n"), (PUT_BACK, "well\n")):
        site.ssh("w01", change)
        site.becomes("w01", WELL, seen)
        assert site.ssh("head", STATE) == "drained fan 2\n"
    site.ssh("head", "sudo scontrol update NodeName=w01 State=RESUME")
    site.becomes("head", BASE_STATE, "idle\n")

    # A node that has not got the program, as one that was off when the others got it, works as before.
    site.ssh("w02", "sudo mv /usr/bin/hpcforge-health-or-true /root")
    assert site.ssh("head", "sudo -iu ada srun -w w02 hostname") == "w02\n"
    site.ssh("w02", "sudo mv /root/hpcforge-health-or-true /usr/bin")
    site.becomes("head", "sinfo -hn w02 -o %T", "idle\n")


def test_what_a_job_left_goes_and_nothing_of_others(site: Site) -> None:
    begin = "setsid sleep 54321 </dev/null >/dev/null 2>&1 &"
    site.ssh("w01", f"sudo -u bob sh -c '{begin}'; sudo sh -c '{begin}'; sudo -u bob touch /tmp/of_bob /dev/shm/of_bob")
    site.ssh("w01", "sudo install -d -o ada /var/tmp/kept && sudo -u ada touch /var/tmp/kept/file")
    files = "cd /tmp; ls -d of_* link /dev/shm/of_* /var/tmp/kept/file 2>/dev/null | xargs"
    there = f"ps -o user= -C sleep | sort -u | xargs; {files}"
    before = "ada bob root\n/dev/shm/of_ada /dev/shm/of_bob /var/tmp/kept/file link of_ada of_bob\n"
    after = "bob root\n/dev/shm/of_bob /var/tmp/kept/file of_bob\n"

    site.becomes("head", BASE_STATE, "idle\n")

    # While another job of hers runs there, nothing of hers is anybody's business.
    other = site.ssh("head", "sudo -iu ada sbatch --parsable -w w01 -D / -o /dev/null --wrap 'sleep 600'").strip()
    site.becomes("head", f"squeue -hj {other} -o %T", "RUNNING\n")
    site.ssh("head", f"printf '%s' '{LEAVES}' | sudo -iu ada sbatch --wait -w w01 -D / -o /dev/null")
    site.becomes("head", "squeue -ht completing | wc -l", "0\n")
    site.becomes("w01", there, before)
    site.ssh("head", f"sudo scancel {other}")
    site.becomes("w01", there, after)
    assert site.ssh("w01", "sudo -u ada ls /var/tmp/kept") == "file\n"


# Ask Slurm over HTTP for a user, with the token on standard input; the answer, or the status of a refusal.
ASK = """
import json, sys, urllib.error, urllib.request
user, path, body = sys.argv[1:]
shown = {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": sys.stdin.readline().strip().partition("=")[2]}
asked = urllib.request.Request("http://REST:6820/slurm/" + path, body.encode() or None,
                               {**shown, "Content-Type": "application/json"})
try:
    print(json.dumps(json.load(urllib.request.urlopen(asked, timeout=30))))
except urllib.error.HTTPError as error:
    print(error.code)
"""
TOKEN = "sudo -iu ada scontrol token lifespan=600"


def test_a_program_asks_slurm_for_the_user_whose_token_it_shows(site: Site) -> None:
    old = "slurm-wlm 22.05" in site.ssh("head", "sinfo -V")
    version, path = ("v0.0.38", {"PATH": "/bin"}) if old else ("v0.0.40", ["PATH=/bin"])
    [rest] = re.findall(r"\brest: +{on: (\w+)}", site.blueprint.read_text())
    site.ssh("head", f"cat > /tmp/ask.py <<'END'\n{ASK.replace('REST', rest)}\nEND")

    def asked(token: str, user: str, path: str, body: str = "") -> Any:
        return json.loads(site.ssh("head", f"{token} | python3 /tmp/ask.py {user} {version}/{path} '{body}'"))

    nodes = [one["name"] for one in asked(TOKEN, "ada", "nodes")["nodes"]]
    assert nodes == sorted(site.ssh("head", "sinfo -hN -o %N").split())
    job = {"name": "asked", "partition": "main", "current_working_directory": "/", "environment": path}
    job = {**job, "standard_output": "/var/tmp/asked.%u"}
    made = asked(TOKEN, "ada", "job/submit", json.dumps({"script": "#!/bin/sh\nid -un\n", "job": job}))
    ended = f"scontrol show job {made['job_id']} | grep -oE 'UserId=[a-z]+|JobState=[A-Z]+' | xargs"
    site.becomes("head", ended, "UserId=ada JobState=COMPLETED\n")

    # Somebody else's token, none, and one that is not of this key open nothing.
    for token, user in ((TOKEN, "bob"), ("echo", "ada"), (f"{TOKEN} | rev | cut -c2- | rev", "ada")):
        assert asked(token, user, "nodes") in (401, 500, 511)
    assert site.ssh(rest, "ps -o user= -C slurmrestd").strip() not in ("root", "slurm")


def test_a_user_has_a_crontab_of_jobs(site: Site) -> None:
    if "slurm-wlm 22.05" in site.ssh("head", "sinfo -V"):  # Debian 12 packages no scrontab
        assert "not found" in site.ssh("head", "scrontab -l 2>&1 || :")
        return
    later = "$(date -d '6 hours' +%-H)"  # whatever time it is now
    site.ssh("head", f"printf '#SCRON -o /dev/null\\n0 %s * * * /bin/true\\n' {later} | sudo -iu ada scrontab -")
    site.becomes("head", "squeue -hu ada -o '%T %r'", "PENDING BeginTime\n")
    site.ssh("head", "sudo -iu ada scrontab -r")
    site.becomes("head", "squeue -hu ada", "")


DROP = """add table ip away; add chain ip away out {type filter hook output priority 0;}
add rule ip away out tcp dport 636 drop"""
LEFT = """cat /etc/nsswitch.conf /etc/pam.d/common-* | grep -E 'sss|mkhomedir'; getent passwd grace
sudo sshd -T -C user=x,host=x,addr=127.0.0.1 | grep 'sss_'; ls -d /etc/sssd /usr/share/pam-configs/*hpcforge*; :"""


@pytest.mark.usefixtures("people")
def test_people_of_a_directory_are_the_same_everywhere_and_outlast_it(site: Site) -> None:
    for node in ("head", "w01", "w02"):
        site.becomes(node, f"{{ {WHO}; }} 2>/dev/null || :", KNOWN)
    assert site.ssh("head", f"{LOG_IN}@w01 'pwd; stat -c %U:%a .; sudo -n true 2>/dev/null || echo no'") == (
        "/home/grace\ngrace:700\nno\n"
    )
    site.ssh("head", "sudo -u grace sbatch --wait -w w01 -D / -o /var/tmp/out.%u --wrap 'id -un'")
    assert site.ssh("w01", "cat /var/tmp/out.grace; stat -c %U:%G /var/tmp/out.grace") == "grace\ngrace:vision\n"

    # No answer at all from where it was: whoever is known stays, and nobody of the node waits for it.
    site.ssh("w01", f"sudo nft '{DROP}'; sudo systemctl restart sssd")
    site.becomes("head", f"{LOG_IN}@w01 id -un", "grace\n")
    assert site.ssh("w01", "id -un; sudo -n id -un") == "ops\nroot\n"
    away = site.cli("apply", "BLUEPRINT", "--yes")
    assert away.returncode == 5
    assert "no answer on port 636" in away.stdout
    site.ssh("w01", "sudo nft delete table ip away")
    site.ssh("head", "sudo systemctl stop slapd")
    site.becomes("w01", "getent passwd grace", KNOWN.splitlines(keepends=True)[0])
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    assert site.cli("plan", "BLUEPRINT").returncode == 0

    # Whoever shows another certificate, or has somebody of the node, is not relied on.
    another_certificate_is_refused_and_renewed(site)
    somebody_of_the_node_is_named(site)


@pytest.mark.usefixtures("people")
def test_what_leaves_the_blueprint_leaves_nodes_and_database(site: Site) -> None:
    all_of_it_leaves(site)
    assert site.cli("plan", "BLUEPRINT").returncode == 0
