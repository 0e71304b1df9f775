"""What Slurm is handed, compared whole; and the part of it that runs on a node, really run."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.blueprint.sections.slurm import TESTS_ACCOUNT
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster, Gpus, Partition, SlurmAssociation, SmokeTest, StandInGpus
from hpcforge.design.fabric.topology_conf import SlurmSwitch, Topology
from hpcforge.verify import submit
from hpcforge.verify.heartbeat import Owner
from tests.support.own_tmp import own_tmp
from tests.support.shipped import ROOT
from tests.unit.verify.conftest import shipped_program

GOLDEN = Path(__file__).parent / "golden"
Golden = Callable[[Path, str], None]
Build = Callable[..., Cluster]


def launch(
    cluster: Cluster, *names: str, tests: int = 2, arguments: dict[str, tuple[str, ...]] | None = None
) -> submit.Launch:
    assert cluster.acceptance
    wanted = cluster.acceptance.tests[:tests]
    return submit.launch(cluster, wanted, names or wanted[0].nodes, arguments)


def packaged(cluster: Cluster, version: str) -> Cluster:
    assert cluster.pytorch
    return dataclasses.replace(cluster, pytorch=dataclasses.replace(cluster.pytorch, version=version))


def text(job: submit.Launch) -> str:
    owner = Owner("cafe", "ada@desk", {"where": "0" * 16, "pid": 1, "started": 2})
    lines = [shlex.join(submit.sbatch(job, owner)), "", submit.SCRIPT]
    words = [*submit.free_port(job, "1234"), "", *submit.srun(job, "1234", 20417), ""]
    text = "\n".join([*lines, *("ports.py" if word == submit.PORTS else word and shlex.quote(word) for word in words)])
    return re.sub(r"\b[0-9a-f]{64}\b", "SHA256", text)


@pytest.mark.parametrize("name", ["rehearsal", "h100", "no_gpus", "distribution", "debian_13", "faulty", "one_node"])
def test_commands(name: str, build: Build, golden: Golden) -> None:
    jobs = {
        "rehearsal": lambda: launch(build(3)),
        "h100": lambda: launch(build(4, Gpus("h100-sxm-80g", 8), 128, 2_000_000, time_limit_s=900)),
        "no_gpus": lambda: launch(build(2, None, 64, 256_000)),
        "distribution": lambda: launch(packaged(build(2, build="distribution"), "1.13.1")),
        "debian_13": lambda: launch(packaged(build(2, build="distribution"), "2.6.0")),
        "faulty": lambda: launch(build(2), arguments={"train_ddp": ("--inject", "wrong:1")}),
        "one_node": lambda: launch(build(3), "w2", tests=1),
    }
    golden(GOLDEN / f"{name}.txt", text(jobs[name]()))


def test_a_part_has_a_rank_for_each_real_gpu_and_else_one_a_node(build: Build) -> None:
    def ranks(cluster: Cluster) -> tuple[int, int, list[str]]:
        assert cluster.acceptance
        job = submit.launch(cluster, cluster.acceptance.tests, ("w1", "w2"), part=True)
        threads = [
            word for word in ",".join(submit.srun(job, "1234", 20417)).split(",") if word.startswith("OMP_NUM_THREADS")
        ]
        return job.ranks_per_node, job.gpus_per_node, threads

    assert ranks(build(2)) == (1, 2, ["OMP_NUM_THREADS=1"])  # the nodes of a rehearsal share their cores
    assert ranks(build(2, Gpus("h100-sxm-80g", 8), 128, 2_000_000)) == (8, 8, ["OMP_NUM_THREADS=15"])
    assert ranks(build(2, None, 64, 256_000)) == (1, 0, ["OMP_NUM_THREADS=63"])


def test_a_partition_that_lasts_long_enough_is_chosen(build: Build) -> None:
    cluster = build(2)
    names = ("w1", "w2")
    short, long = Partition("short", names, True, "00:05:00"), Partition("long", names, False, "INFINITE")
    two = dataclasses.replace(cluster, slurm=dataclasses.replace(cluster.slurm, partitions=(short, long)))
    assert submit.partition_for(two, names, 600) == long


def test_a_partition_that_takes_all_jobs_is_chosen_first(build: Build) -> None:
    cluster = build(2)
    names = ("w1", "w2")
    own = Partition("own", names, True, "INFINITE", settings=(("AllowAccounts", "physics"),))
    everyone = Partition("all", names, False, "INFINITE", settings=(("PriorityTier", "2"),))
    two = dataclasses.replace(cluster, slurm=dataclasses.replace(cluster.slurm, partitions=(own, everyone)))
    assert submit.partition_for(two, names, 600) == everyone
    alone = dataclasses.replace(cluster, slurm=dataclasses.replace(cluster.slurm, partitions=(own,)))
    assert submit.partition_for(alone, names, 600) == own


def test_a_partition_whose_topology_joins_the_nodes_is_chosen(build: Build) -> None:
    cluster, names = build(2), ("w1", "w2")
    apart = Topology("tree", "fast", False, (SlurmSwitch("a", ("w1",)), SlurmSwitch("b", ("w2",))), (), ())
    tree = Partition("tree", names, True, "INFINITE")
    flat = Partition("flat", names, False, "INFINITE", topology="flat")
    slurm = dataclasses.replace(
        cluster.slurm, partitions=(tree, flat), topologies=(apart, Topology("flat", None, False, (), (), ()))
    )
    assert submit.partition_for(dataclasses.replace(cluster, slurm=slurm), names, 600) == flat
    slurm = dataclasses.replace(slurm, partitions=(tree,))
    said = "w1 and w2 are apart in the topology of Slurm: no job has nodes of two"
    with pytest.raises(submit.NotLaunchableError, match=said):
        submit.partition_for(dataclasses.replace(cluster, slurm=slurm), names, 600)
    assert submit.partition_for(dataclasses.replace(cluster, slurm=slurm), ["w1"], 600) == tree


@pytest.mark.parametrize(
    ("settings", "account"),
    [
        ((), TESTS_ACCOUNT),
        ((("PriorityTier", "2"), ("AllowAccounts", "ALL"), ("AllowQos", "normal,high")), TESTS_ACCOUNT),
        ((("AllowAccounts", f"physics,{TESTS_ACCOUNT}"),), TESTS_ACCOUNT),
        ((("DenyAccounts", "physics"), ("DenyQos", "high")), TESTS_ACCOUNT),
        ((("AllowAccounts", "physics"),), ""),
        ((("AllowQos", "high"),), ""),
        ((("DenyAccounts", f"physics,{TESTS_ACCOUNT}"),), ""),
        ((("DenyQos", "Normal"),), ""),
    ],
)
def test_tests_have_an_account_where_there_are_accounts_and_the_partition_takes_it(
    settings: tuple[tuple[str, str], ...], account: str, build: Build
) -> None:
    cluster = build(2)
    owner = Owner("cafe", "ada@desk", {"where": "0" * 16, "pid": 1, "started": 2})
    main = Partition("main", ("w1", "w2"), True, "INFINITE", settings=settings)
    slurm = dataclasses.replace(cluster.slurm, partitions=(main,))
    assert launch(dataclasses.replace(cluster, slurm=slurm)).account == ""
    slurm = dataclasses.replace(slurm, associations=(SlurmAssociation(f"account {TESTS_ACCOUNT}", ""),))
    words = submit.sbatch(launch(dataclasses.replace(cluster, slurm=slurm)), owner)
    assert [word for word in words if word.startswith("--account")] == ([f"--account={account}"] if account else [])


RDMA = ROOT / "tests" / "unit" / "roles" / "blueprints" / "chosen.yaml"
PLANNED = {"HPCFORGE_MPI_TRANSPORT": "ob1"}


def test_ranks_of_mpi_get_the_transport_that_their_nodes_have(build: Build) -> None:
    def environment(cluster: Cluster, program: str) -> dict[str, str]:
        job = submit.launch(
            cluster, [SmokeTest(program, (), 60, shipped_program(program))], [node.name for node in cluster.workers[:2]]
        )
        [export] = [word for word in submit.srun(job, "7", 20417) if word.startswith("--export=")]
        variables = dict(variable.split("=", 1) for variable in export.removeprefix("--export=").split(","))
        return {name: variables[name] for name in variables if "MPI" in name}

    fast = load(RDMA).cluster
    assert environment(build(2), "mpi_allreduce") == PLANNED
    assert environment(fast, "mpi_allreduce") == {"HPCFORGE_MPI_TRANSPORT": "ucx"}
    assert environment(fast, "allreduce") == {}  # no rank of MPI
    slow = {node.name for node in fast.workers[:1]}
    mixed = [dataclasses.replace(node, fabrics=()) if node.name in slow else node for node in fast.nodes]
    both = dataclasses.replace(fast, nodes=tuple(mixed))
    assert environment(both, "mpi_allreduce") == {**PLANNED, "OMPI_MCA_pml": "ob1"}  # else ranks refuse each other


def test_a_step_knows_the_memory_of_its_job(build: Build) -> None:
    """Else memory_copy takes a quarter of what is free, on each of ten nodes that share a machine."""
    job = launch(build(2))
    [exported] = [word for word in submit.srun(job, "1234", 20417) if word.startswith("--export=")]
    assert f",SLURM_MEM_PER_NODE={job.memory_mib}," in exported


def test_memory_stays_within_what_slurm_has_to_give(build: Build) -> None:
    assert launch(build(2, memory_mib=3000)).memory_mib == 3000 - 1024


def test_a_job_goes_to_a_partition_that_holds_all_its_nodes(split: Cluster) -> None:
    assert launch(split, "w2").partition == "only-w2"
    with pytest.raises(submit.NotLaunchableError, match=r"no partition .* holds all of w\[1-2\]"):
        launch(split, "w1", "w2")


@pytest.mark.parametrize(("node", "rank"), [("w1", "0"), ("w3", "2")])
def test_a_node_finds_its_rank_by_its_name(node: str, rank: str, build: Build) -> None:
    ran = _on_node(launch(build(3)), node)
    event, environment = ran.stdout.split("\n", 1)
    assert event == f'{{"event": "node", "host": "{node}", "launch": "", "node_rank": {rank}}}'
    assert f"PET_NODE_RANK={rank}\n" in environment


def test_a_node_that_is_not_of_the_job_runs_nothing(build: Build) -> None:
    ran = _on_node(launch(build(3)), "w9")
    assert (ran.returncode, ran.stdout) == (64, '{"event": "node", "host": "w9", "launch": "", "node_rank": null}\n')


def _on_node(
    job: submit.Launch, node: str, *program: str, prefix: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    command = submit.srun(job, "7", 20417)
    command = [*prefix, *command[command.index("/bin/sh") : command.index(job.python)], *(program or ("env",))]
    environment = {"SLURMD_NODENAME": node, "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def alone(job: submit.Launch) -> submit.Launch:
    """The same of a test whose processes know nothing of each other."""
    (turn, *_) = job.turns
    program = dataclasses.replace(turn.program, launcher="plain")
    return dataclasses.replace(job, turns=(dataclasses.replace(turn, program=program),), python=submit.PYTHON)


FOLDERS = ("TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
LOOK = f"""
import os, signal, stat, sys
folders = {{os.environ[name] for name in {FOLDERS}}}
about = os.stat(*folders)
print(*folders, stat.S_IMODE(about.st_mode) == 0o700 and about.st_uid == os.geteuid())
open(os.path.join(*folders, "left"), "w").close()
sys.stdout.flush()
"""


@pytest.mark.parametrize("kind", ["torchrun", "plain"])
@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", -9)]
)
def test_tests_have_a_folder_that_is_theirs_alone_and_goes_with_them(
    kind: str, end: str, code: int, build: Build
) -> None:
    job = launch(build(2)) if kind == "torchrun" else alone(launch(build(2)))
    ran = _on_node(job, "w2", "python3", "-c", LOOK + end)
    _, seen = ran.stdout.splitlines()
    folder, private = seen.split()
    assert (ran.returncode, private, ran.stderr) == (code, "True", "")
    assert folder.startswith("/tmp/hpcforge-tests.")
    assert not Path(folder).exists()


@pytest.mark.parametrize("kind", ["torchrun", "plain"])
def test_a_folder_that_a_killed_test_left_is_removed_by_a_later_one(kind: str, build: Build, tmp_path: Path) -> None:
    job = launch(build(2)) if kind == "torchrun" else alone(launch(build(2)))
    end = "os.kill(os.getppid(), signal.SIGKILL)"
    ran = _on_node(job, "w2", "python3", "-c", LOOK + end)
    left, link = Path(ran.stdout.split()[-2]), Path(f"/tmp/hpcforge-tests.link{os.getpid()}")
    (tmp_path / "of_another").write_text("stays")
    link.symlink_to(tmp_path)
    try:
        assert (left / "left").exists()
        _on_node(job, "w2", "true")
        assert left.exists()  # it may be of a test that runs
        for path in (left, link):
            os.utime(path, (0, 0), follow_symlinks=False)
        _on_node(job, "w2", "true")
        assert not left.exists()
        assert (tmp_path / "of_another").read_text() == "stays"
    finally:
        link.unlink(missing_ok=True)
        shutil.rmtree(left, ignore_errors=True)


def of(job: submit.Launch, **changed: object) -> submit.Launch:
    """The same of a test whose folder says otherwise."""
    (turn, *_) = job.turns
    program = dataclasses.replace(turn.program, **changed)  # type: ignore[arg-type]
    return dataclasses.replace(job, turns=(dataclasses.replace(turn, program=program),))


@pytest.mark.parametrize(
    ("launcher", "threads", "ranks", "cpus"),
    [("mpi", 2, 8, 14), ("mpi", 1, 8, 15), ("mpi", 2, 100, 1), ("srun", 2, 8, 15)],
)
def test_ranks_that_are_bound_to_cores_have_whole_ones(
    launcher: str, threads: int, ranks: int, cpus: int, build: Build
) -> None:
    """122 hardware threads for 8 ranks are 15 each: half of a core of two."""
    job = of(launch(build(2, None, 128, 256_000), tests=1), launcher=launcher)
    nodes = tuple(dataclasses.replace(node, threads_per_core=threads) for node in job.nodes)
    job = dataclasses.replace(job, nodes=nodes, cpus_per_node=122, ranks_per_node=ranks)
    words = submit.srun(job, "7")
    assert f"OMP_NUM_THREADS={cpus}" in ",".join(words).split(",")
    assert (f"--cpus-per-task={cpus}" in words) is (launcher == "mpi")


@pytest.mark.parametrize("shared", [True, False])
def test_threads_do_not_spin_where_nodes_share_cores(shared: bool, build: Build) -> None:
    words = submit.srun(launch(dataclasses.replace(build(2), shared_cores=shared), tests=1), "7")
    assert ("OMP_WAIT_POLICY=passive" in ",".join(words).split(",")) is shared


def test_tasks_that_meet_know_where(build: Build) -> None:
    job = of(launch(build(2), tests=1), launcher="meeting")
    (told,) = (word for word in submit.srun(job, "7", 20417) if word.startswith("--export="))
    assert f"HPCFORGE_MEETING={job.nodes[0].address}:20417" in told.split("=", 1)[1].split(",")


@pytest.mark.parametrize(
    ("kind", "packages"),
    [("wheel", "python3 libstdc++6"), ("distribution", "python3 libstdc++6 python3-torch python3-numpy")],
)
def test_ranks_in_a_container_have_an_image_of_the_node_s_packages(kind: str, packages: str, build: Build) -> None:
    cluster = dataclasses.replace(build(2, build=kind), container_runtimes=("charliecloud",))
    assert cluster.acceptance
    test = cluster.acceptance.tests[1]
    program = dataclasses.replace(test.program, container="charliecloud", modules=("numpy",))
    test = dataclasses.replace(test, program=program)
    job = submit.launch(cluster, [test], test.nodes)
    words = submit.srun(job, "7", 20417)
    begin = words.index("/opt/hpcforge/smoke_tests/node_image.py")
    enter = "env --unset=TMPDIR ch-run --set-env=TMPDIR=@tmp@ --bind=/opt/hpcforge:/opt/hpcforge @image@ --"
    assert words[begin - 2 : words.index("--nnodes=2") - 2][:3] == ["/usr/bin/python3", "-I", words[begin]]
    assert " ".join(words[begin + 1 :]).startswith(f"{packages} -- {enter} {job.python} ")


def test_ranks_of_mpi_in_a_container_have_their_modules_there(build: Build) -> None:
    cluster = dataclasses.replace(build(2), container_runtimes=("charliecloud",))
    assert cluster.acceptance
    test = cluster.acceptance.tests[1]
    program = dataclasses.replace(test.program, launcher="mpi", pytorch=False, modules=("mpi4py",), packages=("hello",))
    program = dataclasses.replace(program, container="charliecloud")
    test = dataclasses.replace(test, program=program)
    job = submit.launch(cluster, [test], test.nodes)
    words = submit.srun(job, "7")
    begin = words.index("/opt/hpcforge/smoke_tests/node_image.py")
    assert words[begin + 1 : words.index("--", begin)] == ["python3", "libstdc++6", "hello", "python3-mpi4py"]
    assert f"@image@ -- /usr/bin/python3 /opt/hpcforge/smoke_tests/{test.name}.py --json" in " ".join(words)
    assert "--mpi=pmix" in words


def test_what_is_not_there_is_said(build: Build) -> None:
    ran = _on_node(launch(build(2)), "w2", "/no/such/python", "-m", "torch")
    assert ran.returncode == 127
    assert ran.stderr.rstrip().endswith("/no/such/python: not found")


def test_a_step_that_slurm_ends_clears_up(build: Build) -> None:
    """Slurm sends a signal to all of a task's processes."""
    command = submit.srun(alone(launch(build(2))), "7")
    command = [*command[command.index("/bin/sh") : command.index(submit.PYTHON)], "python3", "-c"]
    wait = LOOK + "import time\ntime.sleep(60)"
    environment = {"SLURMD_NODENAME": "w1", "PATH": "/usr/bin:/bin"}
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, wait], env=environment, stdout=pipe, text=True, process_group=0) as task:
        assert task.stdout
        task.stdout.readline()
        folder = task.stdout.readline().split()[0]
        assert Path(folder).exists()
        os.killpg(task.pid, signal.SIGTERM)
        assert task.wait(30) == -signal.SIGTERM
    assert not Path(folder).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a /tmp of its own")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")
def test_names_that_others_took_in_tmp_stop_no_training(build: Build) -> None:
    """torch has a cache in /tmp by the user's name, unless it is told another place."""
    take = f'{own_tmp()} && touch /tmp/torchinductor_$(id -un) && exec "$@"'
    code = "import torch; torch.optim.SGD([torch.zeros(1)], lr=1); print('trains')"
    elsewhere = ("unshare", "--mount", "sh", "-c", take, "sh")
    program = (sys.executable, "-W", "ignore", "-c", code)
    where = {"HOME": "/nonexistent", "USER": "root"}
    taken = subprocess.run(
        [*elsewhere, *program], env={"PATH": os.environ["PATH"], **where}, capture_output=True, text=True, check=False
    )
    assert "/tmp/torchinductor_root" in taken.stderr
    ran = _on_node(launch(build(2)), "w2", *program, prefix=elsewhere, **where)
    assert ran.stdout.endswith("trains\n"), ran.stderr


def test_the_first_node_says_who_holds_the_port_if_its_launcher_ended_badly(build: Build) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        job = launch(build(2))
        command = submit.srun(job, "7", port)
        command = command[command.index("/bin/sh") : command.index(job.python)]

        def said(node: str, code: int) -> list[dict[str, object]]:
            environment = {"SLURMD_NODENAME": node, "PATH": "/usr/bin:/bin"}
            words = [*command, "sh", "-c", f"exit {code}"]
            ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            assert ran.returncode == code
            return [json.loads(line) for line in ran.stdout.splitlines()[1:]]

        (held,) = said("w1", 1)
        assert (held["event"], held["host"]) == ("held", "w1")
        assert str(held["text"]).startswith(f"port {port} is held by ")
        assert f"process {os.getpid()}, " in str(held["text"])
        assert said("w1", 0) == []
        assert said("w2", 1) == []


# What other users leave where Python looks for modules: in a home that anybody may make, and where one stands.
THEIRS = 'print("theirs", flush=True)\n'
PYTHON = os.path.realpath(sys.executable)  # as the distribution's, which looks into homes; one of a venv does not


@pytest.fixture
def planted(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """The environment of an attack, and a folder to start in."""
    site = tmp_path / "home/.local/lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
    site.mkdir(parents=True)
    (site / "usercustomize.py").write_text(THEIRS)
    here = tmp_path / "here"
    here.mkdir()
    for name in ("ranks", "socket", "platform"):
        (here / f"{name}.py").write_text(THEIRS)
    return {"HOME": str(tmp_path / "home")}, here


def _exported(job: submit.Launch) -> dict[str, str]:
    (word,) = (word for word in submit.srun(job, "7", 20417) if word.startswith("--export="))
    return dict(pair.split("=", 1) for pair in word.removeprefix("--export=").split(","))


def test_nothing_of_other_users_is_imported(build: Build, planted: tuple[dict[str, str], Path]) -> None:
    home, here = planted

    def said(environment: dict[str, str]) -> str:
        command = [PYTHON, "-m", "platform"]
        return subprocess.run(command, env=environment, cwd=here, capture_output=True, text=True, check=True).stdout

    assert said(home) == "theirs\ntheirs\n"
    assert "theirs" not in said({**_exported(launch(build(2))), **home})


def test_nobody_can_make_the_home_of_the_tests(build: Build) -> None:
    home = _exported(launch(build(2)))["HOME"]
    user = {"user": "nobody"} if os.geteuid() == 0 else {}
    ran = subprocess.run(["mkdir", "-p", f"{home}/.local"], capture_output=True, text=True, check=False, **user)
    assert "Permission denied" in ran.stderr


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")
def test_ranks_import_their_own_and_nothing_of_other_users(build: Build, planted: tuple[dict[str, str], Path]) -> None:
    home, here = planted
    ours = Path(__file__).parents[3] / "smoke_tests"
    packages = f"{ours / 'allreduce'}:{sysconfig.get_path('purelib')}"  # torch is in the venv here
    command = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(ours / "in_turn.py")]
    ran = subprocess.run(
        [*command, "allreduce", "--json", "--sizes-kib", "4", "--repeats", "1"],
        env={**_exported(launch(build(2))), **home, "PYTHONPATH": f"{ours}:{packages}"},
        cwd=here, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert '"event": "result"' in ran.stdout
    assert "theirs" not in ran.stdout + ran.stderr


def test_ranks_on_stand_ins_are_no_more_than_cpus(build: Build) -> None:
    few, many = (launch(build(2, StandInGpus("h100-sxm", 8), cores)) for cores in (4, 64))
    assert (few.ranks_per_node, few.gpus_per_node, few.cpus_per_node) == (3, 8, 3)  # a core is kept
    assert (many.ranks_per_node, many.gpus_per_node) == (8, 8)


def test_a_launch_on_several_nodes_knows_the_test_of_pairs(build: Build) -> None:
    cluster = build(2)
    assert cluster.acceptance
    pairs = SmokeTest("links", ("w1", "w2"), 60, shipped_program("pairs"))
    tests = (*cluster.acceptance.tests, pairs)
    with_pairs = dataclasses.replace(cluster, acceptance=dataclasses.replace(cluster.acceptance, tests=tests))
    assert launch(cluster).pairs_test == ""
    assert launch(with_pairs).pairs_test == "links"
    assert launch(with_pairs, "w1").pairs_test == ""
