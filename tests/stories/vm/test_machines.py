"""Virtual machines, from the image to a job of Slurm's on them, and nothing left: `make test-vm`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator

import pytest

from tests.support.vm_rehearsal import REPOSITORY, Rehearsal, blueprint, configured, interfaces, machines, sockets

pytestmark = pytest.mark.vm

NAME = f"test-vm-{os.getpid()}"
# One worker without GPUs: a smoke test has as many ranks on each as that with the fewest has GPUs, and at least one.
BLUEPRINT = blueprint(
    "machines",
    """\
nodes:
  head: {functions: [head],   hardware: rehearsal-node, addresses: 10.77.0.10}
  w01:  {functions: [worker], hardware: rehearsal-node, addresses: 10.77.0.11, gpus: {model: fake, count: 2}}
  w02:  {functions: [worker], hardware: rehearsal-node, addresses: 10.77.0.12}
services:
  depot: {on: head}
software:
  containers: {runtimes: [charliecloud]}
slurm:
  ssh: jobs-only
  private_tmp: /var/spool/jobs
  partitions:
    main: {nodes: "w[01-02]", default: true}
storage:
  projects: {kind: nfs, server: head, path: /srv/projects, mount: /projects}
role_folders: [roles]
roles:
  hardening: {enabled: true}
  kernel_hardening: {enabled: true}
users:
  ada:   {uid: 2001}
  bob:   {uid: 2002}
  eve:   {uid: 2003, admin: true}
  tests: {uid: 2004}
rollout: {confirm_wait: 5min}
""",
)
PYTORCH = ("software:\n", 'software:\n  frameworks: {pytorch: "2.13.0"}\n')
ACCEPTANCE = """\
acceptance:
  run_as: tests
  tests:
    allreduce: {nodes: all, options: {sizes_kib: [4, 64, 1024], repeats: 3}}
"""
# What most machines have and these would not: it puts each session into a cgroup of systemd's.
SESSIONS = """\
description: Sessions of systemd's for who logs in.
on: "'worker' in node.functions"
needs: [base]
packages: [libpam-systemd]
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Three machines, configured."""
    with configured(NAME, tmp_path_factory.mktemp("site"), BLUEPRINT, {"sessions": SESSIONS}) as rehearsal:
        yield rehearsal


def test_a_job_runs_on_both_workers(up: Rehearsal) -> None:
    assert sorted(up.on("head", "sudo -iu ada srun -N2 hostname").split()) == ["w01", "w02"]
    # What containers share with their host, and machines have for themselves.
    assert up.on("w01", "systemd-detect-virt").strip() in ("qemu", "kvm")
    assert "cgroup2" in up.on("w01", "findmnt --noheadings --output FSTYPE /sys/fs/cgroup")
    ids = {up.on(node, "cat /etc/machine-id /proc/sys/kernel/random/boot_id") for node in ("w01", "w02")}
    assert len({word for text in ids for word in text.split()}) == 4


def test_a_file_of_one_worker_is_its_user_s_on_the_other(up: Rehearsal) -> None:
    up.user("ada", "srun", "-w", "w01", "sh", "-c", "umask 077; hostname >/projects/of_ada")
    said = up.user("ada", "srun", "-w", "w02", "sh", "-c", "cat /projects/of_ada; stat -c '%U %a' /projects/of_ada")
    assert said.splitlines()[-2:] == ["w01", "ada 600"]
    assert up.on("w02", "findmnt -no FSTYPE /projects") == "nfs4\n"
    assert up.on("head", "sudo stat -c %u /srv/projects/of_ada") == "2001\n"
    assert "Permission denied" in up.on("w02", "sudo cat /projects/of_ada 2>&1 || :")  # root is nobody there


def test_a_job_over_its_memory_is_killed(up: Rehearsal) -> None:
    limited = ("srun", "-w", "w01", "-J", "over", "--mem=100M", "python3", "-c")
    assert up.user("ada", *limited, "bytearray(20 << 20); print('fits')").endswith("fits\n")
    assert "oom-kill" in up.user("ada", *limited, "x = bytearray(400 << 20)")
    state = "scontrol -o show job | grep JobName=over | tail -n 1 | grep -o JobState=[A-Z_]*"
    up.becomes("head", state, "JobState=OUT_OF_MEMORY")
    assert "Memory cgroup out of memory" in up.on("w01", "sudo dmesg")


def test_the_memory_of_a_job_is_measured(up: Rehearsal) -> None:
    holds = 'x = bytearray(100 << 20); __import__("time").sleep(900)'
    with up.job(f"--wrap=srun --acctg-freq=task=1 python3 -c {shlex.quote(holds)}") as number:
        over = f"sudo sstat -nP -j {number}.0 -o maxrss | numfmt --from=iec | awk '{{ print ($1 > {100 << 20}) }}'"
        up.becomes("head", over, "1")


def test_a_job_has_its_cores_and_no_other(up: Rehearsal) -> None:
    every = "taskset -pc 0-1 $$ >/dev/null; nproc"  # asks for more than it has
    assert int(up.on("w01", every)) > 1
    assert up.user("ada", "srun", "-w", "w01", "-n1", "-c1", "sh", "-c", every).endswith("1\n")


def test_a_gpu_that_a_job_has_not_cannot_be_opened(up: Rehearsal) -> None:
    opens = "for n in 0 1; do (: </dev/fakegpu$n) 2>&1 | sed 's/.*: //'; done"
    srun = ("srun", "-w", "w01", "--mem=50M")
    allowed, denied = "No such device or address", "Operation not permitted"  # the first by a driver that is not there
    assert up.user("ada", *srun, "sh", "-c", opens).splitlines()[-2:] == [denied, denied]
    assert up.user("ada", *srun, "--gpus=1", "sh", "-c", opens).splitlines()[-2:] == [allowed, denied]
    with up.job("--gpus=1", "--wrap=sleep 900"):
        assert up.user("ada", *srun, "--gpus=1", "sh", "-c", opens).splitlines()[-2:] == [denied, allowed]


def test_nor_can_it_be_opened_in_a_container(up: Rehearsal) -> None:
    """Charliecloud shows all of /dev."""
    image = (REPOSITORY / "smoke_tests" / "node_image.py").read_text()
    up.on("w01", f"printf %s {shlex.quote(image)} | sudo tee /srv/node_image.py > /dev/null")
    makes = "cd; rm -rf image; TMPDIR=$HOME python3 /srv/node_image.py dash sed -- true; ls -d image"
    assert up.user("ada", "srun", "-w", "w01", "--mem=200M", "sh", "-c", makes).splitlines()[-1] == "image"
    opens = "for n in 0 1; do (: </dev/fakegpu$n) 2>&1 | sed 's/.*: //'; done"
    srun = ("srun", "-w", "w01", "--mem=50M", "--chdir=/home/ada")
    allowed, denied = "No such device or address", "Operation not permitted"
    inside = ("ch-run", "image", "--", "sh", "-c", opens)
    assert up.user("ada", *srun, "--gpus=1", *inside).splitlines()[-2:] == [allowed, denied]
    with up.job("--gpus=1", "--wrap=sleep 900"):
        assert up.user("ada", *srun, "--gpus=1", *inside).splitlines()[-2:] == [denied, allowed]


def test_ssh_is_for_who_has_a_job_there(up: Rehearsal) -> None:
    for name in ("ada", "bob", "eve"):
        makes = "cd; mkdir -m 700 .ssh; ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519; cat .ssh/id_ed25519.pub"
        key = up.on("head", f"sudo -u {name} env HOME=/home/{name} sh -c {shlex.quote(makes)}").strip()
        takes = f"cd; mkdir -p -m 700 .ssh; echo {shlex.quote(key)} > .ssh/authorized_keys"
        up.on("w01", f"sudo -u {name} env HOME=/home/{name} sh -c {shlex.quote(takes)}")
    refused = "you have no active jobs on this node"
    assert refused in up.to_worker("ada", "echo in")
    with up.job("--wrap=touch /tmp/of_job; sleep 900") as number:
        up.becomes("w01", "sudo find /var/spool/jobs -name of_job -printf '%f\\n'", "of_job")
        said = up.to_worker("ada", "cat /proc/self/cgroup; echo job $SLURM_JOB_ID; ls /tmp; nproc")
        assert f"/job_{number}/step_extern/" in said
        assert said.endswith(f"job {number}\nof_job\n1\n")  # of two cores those of the job
        assert refused in up.to_worker("bob", "echo in")
        assert "/user.slice/" in up.to_worker("eve", "cat /proc/self/cgroup")  # systemd's own, in no job
        stays = "ssh -o BatchMode=yes w01 exec sleep 901 >/dev/null 2>&1 </dev/null &"
        up.on("head", f"cd / && sudo -u ada sh -c {shlex.quote(stays)}")
        up.becomes("w01", "pgrep -fc '^sleep 901' || :", "1")
    up.becomes("w01", "pgrep -fc '^sleep 901' || :", "0")  # a session ends with its job


def test_jobs_have_a_tmp_of_their_own_and_leave_nothing(up: Rehearsal) -> None:
    up.on("w01", "touch /tmp/of_node /dev/shm/of_node")
    shows = "ls -A /tmp /dev/shm; echo mine > /tmp/of_job; echo mine > /dev/shm/of_job; stat -c %U /tmp"
    said = up.user("ada", "srun", "-w", "w01", "sh", "-c", shows)
    assert said.split()[-3:] == ["/dev/shm:", "/tmp:", "ada"]
    assert "of_node" in up.on("w01", "ls /tmp")
    assert up.on("w01", "ls /tmp/of_job /dev/shm/of_job 2>/dev/null || :") == ""
    up.becomes("w01", "sudo find /var/spool/jobs -mindepth 2", "")  # slurmd has a folder of its own there


_PARAMETERS = (
    "kernel.yama.ptrace_scope",
    "kernel.perf_event_paranoid",
    "kernel.kptr_restrict",
    "net.ipv4.conf.all.rp_filter",
)
HARDENED = f"/sbin/sysctl -n {' '.join(_PARAMETERS)}"


def test_kernels_are_hardened_but_for_what_jobs_need(up: Rehearsal) -> None:
    assert up.on("head", HARDENED).split() == ["1", "3", "1", "2"]
    assert up.on("w01", HARDENED).split() == ["0", "2", "1", "2"]


def test_the_root_file_system_has_grown_to_its_disk(up: Rehearsal) -> None:
    size_kib = int(up.on("w01", "df --output=size / | tail -n 1"))
    assert size_kib > 18 << 20


def test_nothing_is_left_to_change(up: Rehearsal) -> None:
    assert up.run("plan", up.blueprint) != ""


def test_an_all_reduce_with_a_rank_on_each_worker_ends_with_a_verdict_and_numbers(up: Rehearsal) -> None:
    up.blueprint.write_text(BLUEPRINT.replace(*PYTORCH) + ACCEPTANCE)
    up.run("apply", up.blueprint, "--yes", "--verify", "none")
    (verdict,) = json.loads(up.run("verify", up.blueprint, "--json"))["verdicts"]
    assert (verdict["test"], verdict["status"], verdict["detail"]) == ("allreduce", "passed", "")
    assert (verdict["nodes"], verdict["ranks"], verdict["left_out"]) == (["w01", "w02"], 2, {})
    assert (verdict["backend"], verdict["torch_build"]) == ("gloo", "2.13.0+cpu from wheel")
    assert [one["size_bytes"] for one in verdict["measurements"]] == [4 << 10, 64 << 10, 1 << 20]
    for one in verdict["measurements"]:
        print(f"    {one['size_bytes']:>8} B {one['seconds'] * 1e3:8.1f} ms  busbw {one['busbw_gb_per_s']} GB/s")
        assert one["seconds"] > 0
    print(f"    {verdict['headline']}; {verdict['seconds']:.0f} s from submission to verdict", flush=True)
    up.becomes("head", "squeue -h", "")
    up.run("plan", up.blueprint)


def test_a_machine_that_lost_its_power_is_the_same_machine_again(up: Rehearsal) -> None:
    up.on("w02", "echo kept | sudo tee /root/kept > /dev/null; sync")
    before = up.on("w02", "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub")
    up.cut_power("w02")
    assert "w02   10.77" in up.run("rehearse", "up", up.blueprint)
    assert up.on("w02", "sudo cat /root/kept").strip() == "kept"
    assert up.on("w02", HARDENED).split() == ["0", "2", "1", "2"]
    assert up.on("w02", "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub") == before


def test_nothing_is_left_behind(up: Rehearsal) -> None:
    lab = up.lab
    up.run("rehearse", "down", up.blueprint)
    assert (machines(lab), interfaces(lab), sockets(lab)) == ([], [], [])
    assert not lab.directory.exists()
