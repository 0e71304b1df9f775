"""From nothing to a verified cluster, and what an operator does with it next: one story, told in order.

Each test goes on where the one before it ended, since a cluster takes a minute to build.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.cli.site import open_site
from hpcforge.cluster.model import Measure, SmokeTest, SmokeTestProgram
from hpcforge.run.engine_head import EngineHead, owner
from hpcforge.run.result import begin
from hpcforge.run.site import open_engines
from hpcforge.verify.verify import LaunchOptions, verify
from tests.support.site import BECOMES_S, REPOSITORY, Site
from tools import slurm_settings

pytestmark = pytest.mark.lab

STARTS = """
for unit in slurmctld slurmd munge chrony dnsmasq lighttpd hpcforge-fakegpu; do
  echo "$unit $(systemctl show -P ExecMainStartTimestampMonotonic $unit)"
done
"""
CAP_SYS_RESOURCE = 24  # include/uapi/linux/capability.h
SCORES = "systemctl show -P OOMScoreAdjust UNIT; cat /proc/$(systemctl show -P MainPID UNIT)/oom_score_adj"


def starts(site: Site) -> dict[str, str]:
    """When each service was started, by node: equal before and after means that nothing was restarted."""
    return {node: site.ssh(node, STARTS) for node in ("head", "w01", "w02", "w03")}


def passed(output: str) -> list[str]:
    return [line.split()[0] for line in output.splitlines() if "  passed  " in line]


def test_without_a_lab_the_way_to_one_is_named(site: Site) -> None:
    done = site.cli("plan", "BLUEPRINT")
    assert done.returncode == 3
    assert f"-m hpcforge rehearse up {site.blueprint} --lab {site.lab}\n" in done.stderr


def test_a_node_that_is_off_does_not_hold_the_rest(site: Site) -> None:
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    assert site.cli("rehearse", "down", "w02").returncode == 0
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 4
    assert "w02 is unreachable and left out" in done.stderr
    assert passed(done.stdout) == ["allreduce", "train_ddp"]
    assert "4 ranks on w[01,03]" in done.stdout
    assert "torch 2.13.0+cpu from wheel" in done.stdout
    assert "left out: w02 (unreachable" in done.stdout


def test_the_node_that_came_without_python_was_brought_to_it(site: Site) -> None:
    assert site.ssh("w03", "python3 --version").startswith("Python 3.11")


def test_when_it_is_back_only_it_is_worked_on(site: Site) -> None:
    others = {node: site.ssh(node, STARTS) for node in ("head", "w01", "w03")}
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "1 node to change: w02; unchanged: head,w[01,03]." in done.stderr
    assert "smoke tests  w[01-02]  (w02 changed)\n  ~ allreduce, train_ddp, with w01; not on w03\n" in done.stderr
    assert passed(done.stdout) == ["allreduce", "train_ddp"]
    assert "2 ranks on w[01-02]" in done.stdout
    assert "w02 changed, tested with w01; not tested now: w03, unchanged since last tested" in done.stdout
    assert {node: site.ssh(node, STARTS) for node in others} == others


def test_users_can_work(site: Site) -> None:
    site.becomes("head", "sinfo -h -o '%D %T %G'", "3 idle gpu:fake:2\n")
    hosts = site.ssh("head", "sudo -iu ada srun -N3 hostname")
    assert sorted(hosts.split()) == ["w01", "w02", "w03"]
    environment = site.ssh("head", "sudo -iu ada srun --gres=gpu:1 env")
    assert "CUDA_VISIBLE_DEVICES=0\n" in environment
    assert "id=2001(ada)" in site.ssh("w01", "id ada").replace("uid", "id")


def test_the_controller_outlives_users_who_fill_the_heads_memory(site: Site) -> None:
    """The kernel's memory killer takes the process with the highest score; users' own are never below 0.

    Only CAP_SYS_RESOURCE lowers a score. A node in a container is without it where this machine is: systemd then starts
    services with 0.
    """
    may = int(site.ssh("head", "sed -n 's/^CapBnd:[[:space:]]*//p' /proc/1/status"), 16) >> CAP_SYS_RESOURCE & 1
    for unit in ("slurmctld", "munge"):
        asked, has = site.ssh("head", SCORES.replace("UNIT", unit)).split()
        assert (asked, has) == ("-900", "-900" if may else "0")


def test_the_sites_own_ansible_role_ran(site: Site) -> None:
    assert "rehearsal" in site.ssh("head", "cat /etc/motd")


def test_plain_ansible_and_plain_pyinfra_see_the_rehearsal(site: Site) -> None:
    where = {"HPCFORGE_BLUEPRINT": str(site.blueprint), "HPCFORGE_LAB": site.lab}
    environment = {**os.environ, **where, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for words in (
        ["ansible", "-i", f"{REPOSITORY}/inventory/for_ansible.py", "partition_main", "-a", "hostname"],
        ["pyinfra", "-y", f"{REPOSITORY}/inventory/for_pyinfra.py", "--limit", "function_worker", "exec", "hostname"],
    ):
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=600)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        assert all(re.search(rf"\b{node}\b", said) for node in ("w01", "w02", "w03")), said
        assert not re.search(r"\bhead\b", said), said


def test_a_second_apply_changes_and_restarts_nothing(site: Site) -> None:
    before = starts(site)
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "Nothing to do on 4 nodes." in done.stderr
    assert "ago (w[01-02] tested again since):\n" in done.stdout
    assert passed(done.stdout) == ["allreduce", "train_ddp"] * 2  # on the whole, and on what had changed
    assert starts(site) == before
    assert site.cli("plan", "BLUEPRINT").returncode == 0


def test_of_a_blueprint_made_for_a_lab_only_addresses_keys_and_access_are_the_labs(site: Site) -> None:
    done = site.cli("rehearse", "compare", "--full", "BLUEPRINT")
    assert done.returncode == 0
    assert done.stdout.endswith("; not explained: 0\n")
    assert not re.search(r"^(memory|GPUs|nodes left out)", done.stdout, flags=re.MULTILINE)


def test_the_secret_is_nowhere_but_in_its_file(site: Site) -> None:
    key = site.folder / "blueprints" / "rehearsal.age"
    assert key.stat().st_mode & 0o777 == 0o600
    done = site.cli("plan", "BLUEPRINT", "--json")
    plan = json.loads(done.stdout)
    assert plan["steps"] == []
    assert site.ssh("w01", "sudo stat -c '%a %U %s' /etc/munge/munge.key") == "400 munge 1024\n"


def test_a_file_edited_by_hand_is_shown_and_mended_there_alone(site: Site) -> None:
    before = starts(site)
    site.ssh("w02", "echo '# by hand' | sudo tee -a /etc/chrony/chrony.conf")
    done = site.cli("plan", "BLUEPRINT")
    assert done.returncode == 2
    assert "      -# by hand\n" in done.stdout
    assert "time  w02  (drifted, disrupts: restart)\n" in done.stdout
    assert "1 node to change: w02; unchanged: head,w[01,03]; restart: w02.\n" in done.stdout
    refused = site.cli("apply", "BLUEPRINT")
    assert refused.returncode == 3
    assert "the question needs a terminal" in refused.stderr
    began_s = time.monotonic()
    mended = site.cli("apply", "BLUEPRINT", "--yes")
    print(f"a file mended on one worker, from prompt to prompt: {time.monotonic() - began_s:.1f} s")
    assert mended.returncode == 0
    assert "2 ranks on w[01-02]" in mended.stdout
    assert "w02 changed, tested with w01; not tested now: w03" in mended.stdout
    after = starts(site)
    assert "by hand" not in site.ssh("w02", "cat /etc/chrony/chrony.conf")
    assert {node: text for node, text in after.items() if node != "w02"} == {
        node: text for node, text in before.items() if node != "w02"
    }
    changed = set(after["w02"].splitlines()) - set(before["w02"].splitlines())
    assert [line.split()[0] for line in changed] == ["chrony"]


def test_the_names_of_settings_are_those_that_its_slurm_has(site: Site) -> None:
    library = site.fetch("head", "/usr/lib/*/slurm-wlm/libslurmfull.so")
    release = load_catalog().slurm["22.05"]
    assert slurm_settings.settings(library) == (release.settings, release.partition_settings)


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("PriorityDecayHalfLife: abc", 'Bad value "abc" for PriorityDecayHalfLife'),  # before slurm.conf is replaced
        ("MCSPlugin: mcs/none-such", "mcs plugin"),  # only slurmctld sees it
    ],
)
def test_what_slurmctld_refuses_replaces_nothing_that_works(site: Site, setting: str, why: str) -> None:
    right, files = site.blueprint.read_text(), "cd /etc/slurm && sha256sum *.conf"
    before, job = (
        site.ssh("head", files),
        site.ssh("head", "sudo -iu ada sbatch --parsable -D / -o /dev/null --wrap 'sleep 600'"),
    )
    site.becomes("head", "squeue -h -o %T", "RUNNING\n")
    site.blueprint.write_text(right.replace("\nslurm:\n", f"\nslurm:\n  settings: {{{setting}}}\n"))
    done = site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none")
    assert done.returncode == 5
    assert why in done.stdout
    site.becomes("head", "scontrol ping", "Slurmctld(primary) at head is UP\n")
    assert site.ssh("head", files) == before
    assert site.ssh("w01", "scontrol show config | grep -Ec 'none-such|abc' || :") == "0\n"
    site.becomes("head", "squeue -h -o %T", "RUNNING\n")
    assert site.ssh("head", "sudo -iu ada srun -N1 hostname").startswith("w0")
    site.ssh("head", f"sudo -iu ada scancel {job}")
    site.blueprint.write_text(right)


def test_a_right_value_is_applied_after_wrong_ones(site: Site) -> None:
    right = site.blueprint.read_text()
    site.blueprint.write_text(right.replace("\nslurm:\n", "\nslurm:\n  settings: {killwait: 31}\n"))
    done = site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none")
    assert done.returncode == 0
    assert "an earlier change of slurm_controller was reverted by the node: `systemctl restart" in done.stderr
    site.becomes("w01", "scontrol show config | grep -o 'KillWait .*'", "KillWait                = 31 sec\n")
    site.blueprint.write_text(right)
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0


def test_a_new_user_calls_for_no_test(site: Site) -> None:
    text = site.blueprint.read_text()
    site.blueprint.write_text(text.replace("  tests: {uid", "  eve:   {uid: 2009}\n  tests: {uid"))
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "4 nodes to change: head,w[01-03]." in done.stderr
    assert "smoke tests  none  (jobs feel nothing of this)" in done.stderr
    assert " verify " not in done.stderr.partition("\ntime: ")[2].partition("\n")[0]
    assert site.ssh("head", "sudo -iu eve srun -N1 id -un") == "eve\n"


def test_a_node_that_a_users_job_holds_is_tested_when_the_job_has_ended(site: Site) -> None:
    options = "--parsable -D / -J train -w w02 -o /dev/null"
    job = site.ssh("head", f"sudo -iu ada sbatch {options} --wrap 'sleep 600'").strip()
    site.becomes("head", "squeue -h -o '%T %N'", "RUNNING w02\n")
    site.ssh("w02", "echo '# by hand' | sudo tee -a /etc/chrony/chrony.conf")
    busy = site.cli("apply", "BLUEPRINT", "--yes")
    assert busy.returncode == 0
    assert f"allreduce, train_ddp  waiting  w02 not tested: job {job}, ada's train, holds w02\n" in busy.stdout
    assert f"next: {sys.executable} -m hpcforge apply {site.blueprint} --lab {site.lab}" in busy.stdout
    assert "w02 changed since and has not been tested" in busy.stdout
    assert "by hand" not in site.ssh("w02", "cat /etc/chrony/chrony.conf")
    site.ssh("head", f"sudo -iu ada scancel {job}")
    site.becomes("head", "squeue -h", "")
    untested = site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none")
    assert untested.returncode == 0
    assert "w02 changed since and has not been tested" in untested.stdout
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "Nothing to do on 4 nodes." in done.stderr
    assert passed(done.stdout) == ["allreduce", "train_ddp"]
    assert "w02 changed, tested with w01" in done.stdout


def test_a_worker_that_declares_more_than_it_has_is_named_and_drained(site: Site) -> None:
    greedy = site.blueprint.with_name("greedy.yaml")
    text = site.blueprint.read_text().replace(
        "users:\n", 'overrides:\n  w03: {memory_gib: 4096, reason: "a typing mistake"}\n\nusers:\n'
    )
    greedy.write_text(text + "\nsecrets: rehearsal.age\n")
    done = site.cli("apply", "BLUEPRINT", "--yes", blueprint=greedy)
    assert done.returncode == 7
    assert "memory" in done.stdout
    assert "w03: {memory_gib:" in done.stdout
    assert passed(done.stdout) == ["allreduce", "train_ddp"]
    assert "2 ranks on w[01-02]" in done.stdout
    site.becomes("head", "sinfo -h -N -n w01,w02 -o '%N %T'", "w01 idle\nw02 idle\n")
    drained = site.ssh("head", "scontrol --oneliner show node w03")
    assert "+DRAIN" in drained
    assert "Reason=hpcforge: memory" in drained or "Reason=Low RealMemory" in drained  # Slurm may say it after us
    back = site.cli("apply", "BLUEPRINT", "--yes")
    assert back.returncode == 0
    assert "2 ranks on w[01,03]" in back.stdout  # what was resumed, with one that stayed
    site.becomes("head", "sinfo -h -o '%D %T'", "3 idle\n")


@pytest.mark.parametrize(
    ("fault", "status", "rank", "node"), [("wrong:3", "wrong", 3, "w02"), ("die:5", "failed", 5, "w03")]
)
def test_a_fault_is_blamed_on_its_rank_and_node(site: Site, fault: str, status: str, rank: int, node: str) -> None:
    opened = open_site(site.blueprint, None, site.lab, None)
    acceptance = opened.cluster.acceptance
    assert acceptance is not None
    one = dataclasses.replace(acceptance, tests=tuple(test for test in acceptance.tests if test.name == "allreduce"))
    cluster = dataclasses.replace(opened.cluster, acceptance=one)
    with open_engines(opened) as engine:
        (verdict,) = verify(
            cluster,
            EngineHead(engine, "head", owner(begin(cluster.name, "0"))),
            {},
            print,
            options=LaunchOptions(extra_args={"allreduce": ["--inject", fault]}),
        )
    assert (verdict.status, verdict.rank, verdict.node) == (status, rank, node)
    site.becomes("head", "squeue -h", "")


def test_verify_always_runs_the_tests(site: Site) -> None:
    done = site.cli("verify", "BLUEPRINT", "--json")
    assert done.returncode == 0
    verdicts = json.loads(done.stdout)["verdicts"]
    assert [(verdict["test"], verdict["status"]) for verdict in verdicts] == [
        ("allreduce", "passed"),
        ("train_ddp", "passed"),
    ]
    assert all(verdict["transport"].startswith("gloo on ") for verdict in verdicts)  # of the nodes' network, or wrong
    site.becomes("head", "squeue -h", "")


def test_one_test_alone_leaves_the_verdicts_of_the_others(site: Site) -> None:
    done = site.cli("verify", "BLUEPRINT", "--test", "allreduce", "--json")
    assert done.returncode == 0
    assert [verdict["test"] for verdict in json.loads(done.stdout)["verdicts"]] == ["allreduce"]
    kept = json.loads(site.cli("status", "BLUEPRINT", "--json").stdout)["verdicts"]
    assert {one["verdict"]["test"] for one in kept} == {"allreduce", "train_ddp"}
    unknown = site.cli("verify", "BLUEPRINT", "--test", "allreduse")
    assert (unknown.returncode, unknown.stderr) == (
        3,
        "error: the blueprint has no test 'allreduse'\nhint: tests: allreduce, train_ddp\n",
    )


JOBS = "squeue -h -o '%A %u %T'"
RUNNING = "6 ranks on w[01-03]"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_end_verify_answers_at_once_and_leaves_no_job(site: Site, number: signal.Signals) -> None:
    with site.begin("verify", "BLUEPRINT") as run:
        run.until(RUNNING)
        run.send(number)
        run.until("stopped: cancelling job ")
        assert run.process.wait(BECOMES_S) == 130
    site.becomes("head", "squeue -h -t pending,running", "")
    site.becomes("head", "squeue -h", "")


# In the owner's name, while the job is there: on a slow machine it would end for silence before the next run asks.
KEEP = """
for i in $(seq 60); do
  said=$(squeue -h -j JOB -o %k) && [ -n "$said" ] || exit
  alive=$(cut -c-8 /proc/sys/kernel/random/boot_id).$(cut -d. -f1 /proc/uptime)
  sudo scontrol update JobId=JOB "Comment=${said% alive=*} alive=$alive"
  sleep 5
done
"""


def test_the_next_run_cancels_what_a_killed_one_left_and_takes_it_for_nobodys(site: Site) -> None:
    apply = ("apply", "BLUEPRINT", "--yes", "--force", "gpu_fake", "--only", "gpu_fake")  # drains each worker
    with site.begin(*apply) as run:
        run.until(RUNNING)
        run.process.kill()
    job, user, state = site.ssh("head", JOBS).split()
    assert (user, state) == ("tests", "RUNNING")
    site.ssh("head", f"({KEEP.replace('JOB', job)}) </dev/null >/dev/null 2>&1 &")
    assert f"job {job} on w[01-03], a smoke test of " in site.cli("plan", "BLUEPRINT").stderr
    done = site.cli(*apply)
    assert done.returncode == 0
    assert f"job {job} on w[01-03], a smoke test of " in done.stderr
    assert "its run has ended; cancelled\n" in done.stderr
    assert "jobs run there" not in done.stderr
    assert "are waited for" not in done.stderr


def test_the_job_of_a_run_at_work_is_named_and_left_alone(site: Site) -> None:
    with site.begin("verify", "BLUEPRINT") as first:
        first.until(RUNNING)
        second = site.cli("verify", "BLUEPRINT")
        assert first.process.wait(BECOMES_S) == 0
    assert second.returncode == 0
    assert "its run is active; not touched\n" in second.stderr
    assert passed(second.stdout) == ["allreduce", "train_ddp"]


def test_a_job_whose_owner_is_gone_ends_by_itself(site: Site) -> None:
    with site.begin("verify", "BLUEPRINT") as run:
        run.until(RUNNING)
        run.process.kill()
    job, *state = site.ssh("head", JOBS).split()
    assert state == ["tests", "RUNNING"]
    site.becomes("head", "squeue -h", "")  # within a minute, of the four that it has asked Slurm for
    # its owner's silence ended it, and not Slurm's limit
    assert site.ssh("head", f"squeue -h -t all -j {job} -o %T") == "COMPLETED\n"


FULL = "hpcforge-health: /tmp has 1 MiB free, needed 512 MiB"


def kept(site: Site) -> dict[str, object]:
    """The last verdict on allreduce."""
    verdicts = json.loads(site.cli("status", "BLUEPRINT", "--json").stdout)["verdicts"]
    found: dict[str, object] = next(
        verdict["verdict"] for verdict in verdicts if verdict["verdict"]["test"] == "allreduce"
    )
    return found


def test_a_node_that_slurm_finds_at_fault_before_a_job_is_named_and_the_test_runs_without_it(site: Site) -> None:
    """The prolog finds `/tmp` full. A periodic check may find it first, before there is a job: then once more."""
    for _ in range(4):
        site.becomes("head", "sinfo -h -o '%D %T'", "3 idle\n")
        site.ssh("w02", "sudo mount -t tmpfs -o size=1m none /tmp")
        done = site.cli("verify", "BLUEPRINT", "--test", "allreduce")
        site.ssh("w02", "sudo umount /tmp && sudo /usr/bin/hpcforge-health-or-true")  # which resumes the node
        if "run again without w02" in done.stderr:
            break
    assert done.returncode == 7
    assert f"w02: drained: {FULL}; the prolog of job " in done.stderr
    assert "allreduce  passed  4 ranks on w[01,03]  " in done.stdout
    assert f"left out: w02 (drained: {FULL})\nw02 fell out while it was tested: drained: {FULL}\n" in done.stdout
    assert "  next: scontrol show node w02\n" in done.stdout


def test_a_node_that_refuses_tasks_is_left_out_of_a_second_try(site: Site) -> None:
    site.becomes("head", "sinfo -h -o '%D %T'", "3 idle\n")
    site.ssh("w02", "sudo mv /usr/sbin/slurmstepd /usr/sbin/slurmstepd.away")
    done = site.cli("verify", "BLUEPRINT", "--test", "allreduce")
    site.ssh("w02", "sudo mv /usr/sbin/slurmstepd.away /usr/sbin/slurmstepd")
    assert done.returncode == 7
    assert "allreduce  passed  4 ranks on w[01,03]  " in done.stdout
    assert re.search(r"w02 fell out while it was tested: Task launch for StepId=\S+ failed on node w02: ", done.stdout)


@pytest.mark.parametrize(
    ("command", "status", "nodes", "detail"),
    [
        ("sudo scancel --user=tests", "failed", ["w01", "w02", "w03"], "was cancelled (Slurm: CANCELLED)"),
        ("sudo scontrol update NodeName=w02 State=DOWN Reason=broken", "passed", ["w01", "w03"], ""),
    ],
)
def test_what_ends_a_job_before_its_ranks_speak_is_known_at_once(
    site: Site, command: str, status: str, nodes: list[str], detail: str
) -> None:
    site.becomes("head", "sinfo -h -o '%D %T'", "3 idle\n")
    with site.begin("verify", "BLUEPRINT", "--test", "allreduce") as run:
        run.until(RUNNING)
        # A live node is DOWN for 0.04 s: srun names it only if its task has begun.
        site.becomes("w02", "pgrep -x slurmstepd > /dev/null && echo begun || true", "begun\n")
        site.ssh("head", command)
        if status == "passed":
            run.until("run again without w02")
        assert run.process.wait(BECOMES_S) == 7
    verdict = kept(site)
    assert (verdict["status"], verdict["nodes"]) == (status, nodes)
    assert detail in str(verdict["detail"])


def test_a_test_of_some_nodes_leaves_the_verdict_on_the_others(site: Site) -> None:
    site.becomes("head", "sinfo -h -o '%D %T'", "3 idle\n")
    assert site.cli("verify", "BLUEPRINT", "--test", "allreduce").returncode == 0
    done = site.cli("verify", "BLUEPRINT", "--test", "allreduce", "--limit", "w[01-02]", "--limit", "head")
    assert done.returncode == 0
    assert "allreduce  passed  4 ranks on w[01-02]  " in done.stdout
    assert "  not tested now: w03, not among the selected nodes\n" in done.stdout
    assert kept(site)["nodes"] == ["w01", "w02", "w03"]
    none = site.cli("verify", "BLUEPRINT", "--test", "allreduce", "--limit", "head")
    assert (none.returncode, none.stderr) == (
        3,
        "error: no test runs on head\nhint: tests run: allreduce on w[01-03]\n",
    )
    odd = site.cli("verify", "BLUEPRINT", "--limit", "w09")
    assert (odd.returncode, "w09" in odd.stderr) == (3, True)


DISK = """\
description: "How long a file takes to be written and synced."
launcher: plain
options:
  size_kib: {type: whole, at_least: 4, at_most: 1048576, default: 1024, description: "Size of the file, KiB."}
measures:
  sync_ms: {unit: ms, better: lower}
  size_bytes: {unit: B, format: size}
headline: "{size_bytes} in {sync_ms:worst} ms or less"
thresholds:
  size_bytes: {at_least: 65536}
"""
DISK_PROGRAM = """
import argparse, json, os, tempfile, time
asked = argparse.ArgumentParser()
asked.add_argument("--json", action="store_true")
asked.add_argument("--size-kib", type=int, default=1024)
size = asked.parse_args().size_kib << 10
with tempfile.TemporaryFile() as file:
    start = time.perf_counter()
    file.write(os.urandom(size))
    file.flush()
    os.fsync(file.fileno())
    sync_ms = (time.perf_counter() - start) * 1000
    size_bytes = os.stat(file.fileno()).st_size
print(json.dumps({"event": "measurement", "sync_ms": round(sync_ms, 3), "size_bytes": size_bytes}))
print(json.dumps({"event": "result"}))
"""


HOLD = """
import os, socket, time
held = [socket.create_server(("", port)) for port in range(20000, 20500)]
print(len(held), os.getpid(), flush=True)
time.sleep(3600)
"""


# Slurm kills a job of a node that goes down with SIGKILL, and so what removes its folder: tests above do that.
FORGET_KILLED = "sudo rm -rf /tmp/hpcforge-tests.*"


def test_names_in_tmp_and_ports_that_a_user_took_stop_no_role_and_no_test(site: Site) -> None:
    for worker in ("w01", "w02", "w03"):
        site.ssh(worker, f"{FORGET_KILLED}; sudo -u ada touch /tmp/torchinductor_root /tmp/torchinductor_tests")
    site.ssh("w01", f"sudo -u ada python3 -c {shlex.quote(HOLD)} </dev/null >/tmp/held 2>&1 &")
    site.becomes("w01", "cut -d' ' -f1 /tmp/held", "500\n")
    done = site.cli("apply", "BLUEPRINT", "--yes", "--force", "pytorch", "--only", "pytorch")
    assert done.returncode == 0
    assert passed(done.stdout) == ["allreduce", "train_ddp"]
    assert site.ssh("w01", "stat -c '%U %F' /tmp/torchinductor_tests") == "ada regular empty file\n"
    assert site.ssh("w01", "ls -d /tmp/hpcforge* 2>/dev/null || echo none") == "none\n"
    site.ssh("w01", "sudo kill $(cut -d' ' -f2 /tmp/held)")
    for worker in ("w01", "w02", "w03"):
        site.ssh(worker, "sudo rm /tmp/torchinductor_root /tmp/torchinductor_tests")


def test_a_build_of_pytorch_that_fails_leaves_what_works(site: Site) -> None:
    where = "readlink /opt/hpcforge/pytorch; ls -A /opt/hpcforge/pytorch-builds | wc -l"
    code = "import torch; print(torch.ones(2).sum())"
    trains = f"sudo -iu ada srun -w w02 /opt/hpcforge/pytorch/bin/python -W ignore -c '{code}'"
    before = site.ssh("w02", where)
    assert before.endswith("\n1\n")
    site.ssh("head", "sudo systemctl stop lighttpd")
    site.ssh("w02", "sudo rm /opt/hpcforge/pytorch/requirements.txt")
    again = ("apply", "BLUEPRINT", "--yes", "--force", "pytorch", "--only", "pytorch", "--verify", "none")
    done = site.cli(*again)
    assert done.returncode == 5
    assert "w02: pytorch FAILED: Install the wheels: " in done.stderr
    assert site.ssh("w02", where) == before
    site.ssh("head", "sudo scontrol update nodename=w02 state=resume || :")
    assert site.ssh("head", trains) == "tensor(2.)\n"
    site.ssh("head", "sudo systemctl start lighttpd")
    assert site.cli(*again).returncode == 0
    after = site.ssh("w02", where)
    assert after.endswith("\n1\n")
    assert after != before
    assert site.ssh("head", trains) == "tensor(2.)\n"


APPEND = """\
description: Files that killed launches have left.
launcher: plain
needs: {ranks: {multiple_of: 2}, modules: [numpy]}
launches:
  begin: {ends: killed, kill_after: 5s}
  more: {launcher: torchrun, ends: killed}
  read: {launcher: torchrun, ranks_divided_by: 2}
measures: {nodes: {unit: 1}}
headline: "more on {nodes} nodes"
"""
APPEND_PROGRAM = """
import argparse, os, pathlib, signal, sys, time
def lines(folder):
    return (pathlib.Path(folder) / "lines").read_text().splitlines()
def add(folder, line):
    with (pathlib.Path(folder) / "lines").open("a") as file:
        file.write(line + chr(10))
def parser():
    import ranks
    return ranks.options_parser("lines")
def run(job, options):
    import torch.distributed as dist
    if options.launch == "more":
        add(options.scratch, "more")
        job.agree(True)
        if job.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        job.slowest([1.0])
    told = [None] * job.world_size
    dist.all_gather_object(told, lines(options.scratch))
    job.agree(all(one[0] == "begin" and one.count("more") == 2 for one in told))
    about = job.header()
    if job.rank == 0:
        job.say("", event="measurement", nodes=len(told))
        job.say("", event="result", **about)
if __name__ == "__main__":
    given = argparse.ArgumentParser()
    given.add_argument("--json", action="store_true")
    given.add_argument("--launch")
    given.add_argument("--scratch")
    folder = given.parse_args().scratch
    add(folder, "begin")
    time.sleep(600)
"""


def test_a_test_that_is_added_is_brought_to_the_workers_and_each_of_them_reports(site: Site) -> None:
    """A shipped one, and one of the site's own; both with an option."""
    own = site.blueprint.parent / "our_tests" / "disk_write"
    own.mkdir(parents=True)
    (own / "test.yaml").write_text(DISK)
    (own / "disk_write.py").write_text(DISK_PROGRAM)
    two = site.blueprint.parent / "our_tests" / "append"
    two.mkdir()
    (two / "test.yaml").write_text(APPEND)
    (two / "append.py").write_text(APPEND_PROGRAM)
    tests = "  tests:\n    allreduce: {nodes: all}\n"
    added = """\
    memory_copy: {nodes: all, options: {seconds: 0.5}}
    disk_write: {nodes: all, options: {size_kib: 64}}
    append: {nodes: all}
"""
    text = site.blueprint.read_text()
    site.blueprint.write_text(text.replace(tests, f"  folders: [our_tests]\n{tests}{added}"))
    assert site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none").returncode == 0
    done = site.cli("verify", "BLUEPRINT", "--test", "memory_copy", "--test", "disk_write", "--json")
    verdict, ours = json.loads(done.stdout)["verdicts"]
    by_node = {one["host"]: one["copy_gb_per_s"] for one in verdict["measurements"]}
    assert sorted(by_node) == ["w01", "w02", "w03"]
    # Nodes that share a host's cores do not share them alike: by how much is for the line to say, and is then said.
    slowest = min(by_node, key=lambda node: by_node[node])
    held = by_node[slowest] >= 0.8 * sorted(by_node.values())[1]
    assert (done.returncode, verdict["status"]) == ((0, "passed") if held else (7, "missed"))
    assert f"on {slowest}" in verdict["headline"]
    assert held or slowest in verdict["detail"]
    assert verdict["options"] == {"seconds": "0.5"}
    assert (ours["test"], ours["status"], ours["options"]) == ("disk_write", "passed", {"size_kib": "64"})
    assert {one["host"]: one["size_bytes"] for one in ours["measurements"]} == dict.fromkeys(by_node, 65536)
    assert ours["headline"].startswith("64 KiB in ")
    site.blueprint.write_text(site.blueprint.read_text().replace("size_kib: 64", "size_kib: 32"))
    assert "(other options)\n  ~ disk_write on all of it\n" in site.cli("plan", "BLUEPRINT").stdout
    done = site.cli("verify", "BLUEPRINT", "--test", "disk_write")
    assert done.returncode == 7
    assert "disk_write  missed  " in done.stdout
    assert "size_bytes must be at least 64 KiB: " in done.stdout
    assert "  options: size_kib 32\n" in done.stdout


def test_launches_of_a_test_share_a_folder_and_end_as_they_must(site: Site) -> None:
    """hpcforge kills the first on every node, the second kills its own rank 1, the last reads what they wrote."""
    for worker in ("w01", "w02", "w03"):
        site.ssh(worker, FORGET_KILLED)
    done = site.cli("verify", "BLUEPRINT", "--test", "append", "--json")
    (verdict,) = json.loads(done.stdout)["verdicts"]
    assert (done.returncode, verdict["status"], verdict["detail"]) == (0, "passed", "")
    assert [(each["name"], each["ends"], each["status"], each["ranks"]) for each in verdict["launches"]] == [
        ("begin", "killed", "passed", 3),
        ("more", "killed", "passed", 6),
        ("read", "done", "passed", 3),
    ]
    assert verdict["headline"] == "more on 3 nodes"
    for worker in ("w01", "w02", "w03"):
        assert site.ssh(worker, "ls /tmp | grep hpcforge- || :") == ""


TASK = """
import json, os, sys, time
number = int(os.environ["SLURM_PROCID"])
if "--fail" in sys.argv and number == 3:
    sys.exit("no luck")
if "--hang" in sys.argv and number == 3:
    time.sleep(600)
print(json.dumps({"event": "measurement", "tasks": int(os.environ["SLURM_NTASKS"]), "host": "w01"}))
print(json.dumps({"event": "result"}))
"""


@pytest.mark.parametrize(
    ("arguments", "limit_s", "status", "node", "detail"),
    [
        ((), 120, "passed", None, ""),
        (("--fail",), 120, "failed", "w02", "no luck; Exited with exit code 1"),
        (("--hang",), 30, "timed_out", "w02", "not done after 30 s"),
    ],
)
def test_tasks_of_slurm_report_each_for_itself(
    site: Site, arguments: tuple[str, ...], limit_s: int, status: str, node: str | None, detail: str
) -> None:
    opened = open_site(site.blueprint, None, site.lab, None)
    assert opened.cluster.acceptance is not None
    program = SmokeTestProgram(
        "task", TASK, "srun", (Measure("tasks", "1", "higher"),), "{tasks:worst} tasks", pytorch=False
    )
    for worker in ("w01", "w02", "w03"):
        site.ssh(worker, f"printf %s {shlex.quote(TASK)} | sudo tee /opt/hpcforge/smoke_tests/task.py > /dev/null")
    test = SmokeTest("task", ("w01", "w02", "w03"), limit_s, program)
    with open_engines(opened) as engine:
        head = EngineHead(engine, "head", owner(begin(opened.cluster.name, "0")))
        options = LaunchOptions(extra_args={"task": arguments})
        (verdict,) = verify(opened.cluster, head, {}, print, tests=[test], options=options)
    assert (verdict.status, verdict.node, verdict.detail) == (status, node, detail)
    assert verdict.headline == "6 tasks"
    assert verdict.ranks == 6
    site.becomes("head", "squeue -h", "")


def test_down_leaves_nothing(site: Site) -> None:
    assert site.cli("rehearse", "down").returncode == 0
    assert site.lab not in Path("/proc/self/mounts").read_text()
    assert not (Path("/var/lib/hpcforge/labs") / site.lab).exists()
    assert site.cli("rehearse", "status").returncode == 1
