"""What Slurm is handed, compared whole; and the part of it that runs on a node, really run."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster, Gpus
from hpcforge.verify import submit

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
    lines = [shlex.join(submit.sbatch(job)), "", submit.script(job)]
    return "\n".join([*lines, *(shlex.quote(word) for word in submit.srun(job, "1234")), ""])


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
    assert event == f'{{"event": "node", "host": "{node}", "node_rank": {rank}}}'
    assert f"PET_NODE_RANK={rank}\n" in environment


def test_a_node_that_is_not_of_the_job_runs_nothing(build: Build) -> None:
    ran = _on_node(launch(build(3)), "w9")
    assert (ran.returncode, ran.stdout) == (64, '{"event": "node", "host": "w9", "node_rank": null}\n')


def _on_node(job: submit.Launch, node: str) -> subprocess.CompletedProcess[str]:
    command = submit.srun(job, "7")
    command = command[command.index("/bin/sh") : command.index(job.python)]
    environment = {"SLURMD_NODENAME": node, "PATH": "/usr/bin:/bin"}
    return subprocess.run([*command, "env"], env=environment, capture_output=True, text=True, check=False)
