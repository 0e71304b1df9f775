"""A test of several launches, with a head that answers from a script."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster.launches import ProgramLaunch, RankNeeds
from hpcforge.cluster.model import Cluster, Measure, SmokeTest, SmokeTestProgram
from hpcforge.cluster.storage import FileSystem
from hpcforge.verify import submit
from hpcforge.verify.head import Completed
from hpcforge.verify.verdicts import Verdict, summary_line
from hpcforge.verify.verify import verify
from tests.unit.verify.test_verify import ScriptedHead, ok, quiet

Build = Callable[..., Cluster]
TWO = SmokeTestProgram(
    name="two",
    launches=(ProgramLaunch("save", "torchrun", "killed"), ProgramLaunch("load", "torchrun", ranks_divided_by=2)),
    measures=(Measure("loss", "1"),),
    headline="loss {loss}",
    ranks=RankNeeds(multiple_of=2),
)
MADE = ok('0: {"event": "node", "host": "w1"}\n0: {"event": "scratch", "number": 0}\n')
KILLED = Completed(
    137,
    "".join(f'{rank // 2}: {{"event": "started", "rank": {rank}, "host": "w{rank // 2 + 1}"}}\n' for rank in range(4)),
    "0:   rank      : 1 (local_rank: 1)\n0:   exitcode  : -9 (pid: 606)\n",
)


def loaded(ranks: int = 2, **measured: float) -> Completed:
    events: list[dict[str, Any]] = [{"event": "started", "rank": rank, "host": f"w{rank + 1}"} for rank in range(ranks)]
    events += [{"event": "measurement", **measured}] if measured else []
    events.append({"event": "result", "world_size": ranks, "backend": "gloo", "device": "cpu", "seconds": 0.1})
    return ok("".join(f"{event.get('rank', 0) * 2 // ranks}: {json.dumps(event)}\n" for event in events))


def of_two(cluster: Cluster, program: SmokeTestProgram = TWO) -> Cluster:
    assert cluster.acceptance
    test = SmokeTest("two", ("w1", "w2"), 120, program)
    return replace(cluster, acceptance=replace(cluster.acceptance, tests=(test,)))


def verdict(head: ScriptedHead, cluster: Cluster) -> Verdict:
    (found,) = verify(cluster, head, {}, quiet)
    return found


def stepped(head: ScriptedHead) -> list[list[str]]:
    """What was run on the nodes: the folder made, each launch, the folder removed."""
    return [argv for argv in head.asked if "srun" in argv]


def test_both_end_as_they_must(build: Build) -> None:
    head = ScriptedHead(srun=[MADE, KILLED, loaded(loss=0.25), ok()])
    found = verdict(head, of_two(build()))
    assert (found.status, found.ranks, found.headline, found.backend) == ("passed", 4, "loss 0.25", "gloo")
    assert [(each.name, each.ends, each.status, each.ranks, each.nodes) for each in found.launches] == [
        ("save", "killed", "passed", 4, ("w1", "w2")),
        ("load", "done", "passed", 2, ("w1", "w2")),
    ]
    assert "launches: save killed, load done" in summary_line(found)
    assert [each["name"] for each in asdict(found)["launches"]] == ["save", "load"]
    make, save, load, remove = stepped(head)
    (path,) = {word for argv in (save, load) for word in argv if word.startswith("--scratch=")}
    assert re.fullmatch(r"--scratch=/tmp/hpcforge-scratch\.12\.[0-9a-f]{16}", path)
    assert make[-1] == "/tmp"
    assert remove[-2:] == ["hpcforge", path.removeprefix("--scratch=")]
    assert ("--launch=save" in save, "--nproc_per_node=2" in save) == (True, True)
    assert ("--launch=load" in load, "--nproc_per_node=1" in load) == (True, True)
    assert head.programs().count("sbatch") == 1


@pytest.mark.parametrize(
    ("save", "said"),
    [
        (loaded(4), "launch save: ended on its own; SIGKILL must end it"),
        (Completed(124, KILLED.stdout, ""), "launch save: not done after 120 s; 120 s are for all launches"),
        (
            Completed(1, '0: {"event": "failed", "rank": 1, "host": "w1", "error": "no space"}\n', KILLED.stderr),
            "launch save: no space",
        ),
        (
            Completed(1, KILLED.stdout, "srun: error: w1: task 0: Out Of Memory\n" + KILLED.stderr),
            "launch save: used more memory than the job has there (Slurm: Out Of Memory)",
        ),
    ],
)
def test_another_end_is_a_failure_and_the_next_is_not_run(build: Build, save: Completed, said: str) -> None:
    head = ScriptedHead(srun=[MADE, save, ok()])
    found = verdict(head, of_two(build()))
    assert not found.passed
    assert found.detail == said
    assert [each.status for each in found.launches] == [found.status, "not_run"]
    assert "rm -rf" in stepped(head)[-1][-3]


def test_a_launch_that_must_end_well_and_is_killed_fails(build: Build) -> None:
    head = ScriptedHead(srun=[MADE, KILLED, replace(KILLED, stderr=KILLED.stderr.replace("0:  ", "1:  ")), ok()])
    found = verdict(head, of_two(build()))
    assert (found.status, found.rank) == ("failed", 1)
    assert found.detail == "launch load: killed by SIGKILL"
    assert [each.status for each in found.launches] == ["passed", "failed"]


@pytest.mark.parametrize("last", ["Killed", "Exited with exit code 137", "Terminated"])
def test_tasks_of_slurm_are_killed_too(build: Build, last: str) -> None:
    program = replace(
        TWO,
        launcher="srun",
        pytorch=False,
        launches=(ProgramLaunch("save", "srun", "killed"), ProgramLaunch("load", "plain")),
    )
    nodes = "".join(f'{task}: {{"event": "node", "host": "w{task // 2 + 1}"}}\n' for task in range(4))
    killed = Completed(137, nodes, f"srun: error: w1: task 0: {last}\n")
    alone = "".join(f'{task}: {{"event": "node", "host": "w{task + 1}"}}\n' for task in range(2))
    done = ok(alone + '0: {"event": "measurement", "loss": 1}\n')
    head = ScriptedHead(srun=[MADE, killed, done, ok()])
    found = verdict(head, of_two(build(), program))
    assert found.passed == (last != "Terminated")
    assert stepped(head)[1][-5:-2] == [submit.PYTHON, "/opt/hpcforge/smoke_tests/two.py", "--json"]


def test_without_a_measure_of_any_launch_it_cannot_be_told(build: Build) -> None:
    head = ScriptedHead(srun=[MADE, KILLED, loaded(), ok()])
    found = verdict(head, of_two(build()))
    assert (found.status, found.detail) == ("unknown", "reported no loss: the result is incomplete")


def test_the_folder_is_on_shared_storage_where_there_is_some(build: Build) -> None:
    cluster = of_two(build())
    storage = (FileSystem("projects", "nfs", "s:/srv", "nfs4", "", "/projects", ("head", "w1", "w2")),)
    second = ok('0: {"event": "scratch", "number": 1}\n')
    head = ScriptedHead(srun=[second, KILLED, loaded(loss=0.25), ok()])
    assert verdict(head, replace(cluster, storage=storage)).passed
    make, save, _, remove = stepped(head)
    assert (make[-2:], "--nodelist=w1" in make, "--nodelist=w1" in remove) == (
        ["/projects/tests", "/projects"],
        True,
        True,
    )
    assert any(word.startswith("--scratch=/projects/hpcforge-scratch.12.") for word in save)
    closed = Completed(73, "", "0: none of these takes a folder\nsrun: error: w1: task 0: Exited with exit code 73\n")
    head = ScriptedHead(srun=[closed, MADE, KILLED, loaded(loss=0.25), ok()])
    assert verdict(head, replace(cluster, storage=storage)).passed  # on each node instead
    must = of_two(build(), replace(TWO, scratch="shared"))
    head = ScriptedHead(srun=[closed])
    found = verdict(head, replace(must, storage=storage))
    assert (found.status, [each.status for each in found.launches]) == ("not_run", ["not_run", "not_run"])
    assert found.detail == "cannot create a scratch folder: 0: none of these takes a folder"
    assert len(stepped(head)) == 1


@pytest.mark.parametrize("number", ["-1", "7", '"/etc"', "true", "null", "1e3"])
def test_a_node_cannot_choose_where_it_is(build: Build, number: str) -> None:
    head = ScriptedHead(srun=[ok(f'0: {{"event": "scratch", "number": {number}}}\n')])
    assert verdict(head, of_two(build())).status == "not_run"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (replace(TWO, scratch="shared"), "it needs storage that all of w[1-2] mount"),
        (replace(TWO, container="charliecloud"), "its ranks run in charliecloud"),
        (replace(TWO, ranks=RankNeeds(multiple_of=3, at_most=4)), "a multiple of 3 and at most 4 ranks"),
    ],
)
def test_what_is_lacking_is_said_and_nothing_is_submitted(build: Build, program: SmokeTestProgram, said: str) -> None:
    head = ScriptedHead()
    found = verdict(head, of_two(build(), program))
    assert (found.status, said in found.detail, head.asked) == ("not_run", True, [])


def test_a_test_of_launches_shares_its_job_with_no_other(build: Build) -> None:
    cluster = of_two(build())
    assert cluster.acceptance
    (test,) = cluster.acceptance.tests
    tests = (*(build().acceptance.tests), test)  # type: ignore[union-attr]
    both = replace(cluster, acceptance=replace(cluster.acceptance, tests=tests))
    head = ScriptedHead(srun=[ok()])
    verify(both, head, {}, quiet)
    names = [word for argv in head.asked for word in argv if word.startswith("--job-name=")]
    assert names[-1] == "--job-name=hpcforge-two"


def test_commands(build: Build) -> None:
    """They differ from those of a test with a single launch (golden/) by what the launch says."""
    launches = (
        ProgramLaunch("save", "torchrun", "killed", 30, environment=(("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),)),
        ProgramLaunch("load", "srun", ranks_divided_by=4),
    )
    cluster = of_two(build(), replace(TWO, launches=launches))
    assert cluster.acceptance
    job = submit.launch(cluster, cluster.acceptance.tests, ("w1", "w2"))
    save, load = (submit.srun(step, "1234", 20417) for step in submit.steps(job, "/tmp/scratch"))
    shell = save.index("hpcforge")
    assert save[shell + 2 : shell + 10] == ["20417", "2", "w1", "w2", "timeout", "--signal=KILL", "30", job.python]
    assert ",TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in next(word for word in save if word.startswith("--export="))
    assert {"--nodes=2", "--nodelist=w[1-2]", "--nproc_per_node=2"} <= {*save}
    assert {"--nodes=1", "--nodelist=w1", "--ntasks=1"} <= {*load}
    told = ["/opt/hpcforge/smoke_tests/two.py", "--json", "--launch=load", "--scratch=/tmp/scratch"]
    assert load[load.index("hpcforge") + 1 :] == [job.python, *told]


def test_the_end_of_a_launch_is_told_on_the_node(build: Build, tmp_path: Path) -> None:
    """Really run: what hpcforge kills ends by SIGKILL, and leaves no temporary folder."""
    launches = (ProgramLaunch("save", "plain", "killed", 1),)
    cluster = of_two(build(), replace(TWO, launcher="plain", pytorch=False, launches=launches))
    assert cluster.acceptance
    (step,) = submit.steps(submit.launch(cluster, cluster.acceptance.tests, ("w1", "w2")), str(tmp_path))
    words = submit.srun(step, "7")
    words = [*words[words.index("/bin/sh") : words.index(submit.PYTHON)], "sh", "-c", 'echo "$TMPDIR"; sleep 60']
    environment = {"SLURMD_NODENAME": "w1", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == -signal.SIGKILL
    assert not Path(ran.stdout.splitlines()[1]).exists()
