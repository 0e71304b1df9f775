"""A pass that was not earned: another program on a node, and the output of another launch."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster import load
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import load_roles
from hpcforge.verify import submit
from hpcforge.verify.head import Completed
from hpcforge.verify.step_verdict import judge
from hpcforge.verify.verify import verify
from tests.support.shipped import ROOT
from tests.unit.verify.conftest import Build
from tests.unit.verify.test_submit import alone, launch
from tests.unit.verify.test_verify import MEASURED, ScriptedHead, quiet

STEP_OF = re.compile(r"HPCFORGE_LAUNCH=([0-9a-f]*),")


@pytest.mark.parametrize("name", ["campus.yaml", "software-lab.yaml"])
def test_the_digests_are_those_of_the_files_that_the_role_installs(name: str) -> None:
    loaded = load(ROOT / "blueprints" / name)
    cluster = loaded.cluster
    made = compile_desired(cluster, load_roles(*loaded.role_folders), {})
    assert cluster.acceptance
    for test in cluster.acceptance.tests:
        digests = submit.files(submit.launch(cluster, [test], test.nodes))
        assert f"{test.name}.py" in digests
        installed = {file.path: file.digest for part in made.nodes[test.nodes[0]] for file in part.of(File)}
        for file, digest in digests.items():
            text = made.texts[str(installed[f"{submit.SMOKE_TESTS}/{file}"])]
            assert digest == submit.digest_of(text), file


def ran(job: submit.Launch, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run what a task runs, with another folder in place of the installed programs, and `echo` as the program."""
    command = submit.srun(job, "7", 20417)
    export = next(word for word in command if word.startswith("--export=")).removeprefix("--export=")
    environment = dict(variable.split("=", 1) for variable in export.split(","))
    words = [*command[command.index("/bin/sh") : command.index(job.python)], "echo", "passed"]
    words = [word.replace(submit.SMOKE_TESTS, str(folder)) for word in words]
    return subprocess.run(
        words, env={**environment, "SLURMD_NODENAME": "w2"}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("kind", ["torchrun", "plain"])
@pytest.mark.parametrize("change", ["none", "stub", "missing", "link"])
def test_a_program_that_is_not_the_one_of_this_launch_is_not_run(
    kind: str, change: str, build: Build, tmp_path: Path
) -> None:
    job = launch(build(2)) if kind == "torchrun" else alone(launch(build(2), tests=1))
    job = replace(job, nonce="beef")
    for file, text in texts(job).items():
        (tmp_path / file).write_text(text)
    program = tmp_path / "allreduce.py"
    if change != "none":
        program.unlink()
    if change == "stub":
        program.write_text('print(\'{"event": "measurement", "busbw_gb_per_s": 12.5}\')\n')
    if change == "link":
        program.symlink_to("ranks.py")
    done = ran(job, tmp_path)
    first, *rest = done.stdout.splitlines()
    assert json.loads(first)["launch"] == "beef"
    if change == "none":
        assert (done.returncode, rest, done.stderr) == (0, ["passed"], "")
        return
    assert done.returncode == 65
    assert [json.loads(line) for line in rest] == [{"event": "changed", "host": "w2", "file": "allreduce.py"}]


def texts(job: submit.Launch) -> dict[str, str]:
    shared = {
        f"{name}.py": (ROOT / "smoke_tests" / f"{name}.py").read_text() for name in ("in_turn", "ranks", "limits")
    }
    return shared | {f"{turn.test}.py": turn.program.text for turn in job.turns}


def test_the_node_with_another_program_is_named(build: Build) -> None:
    job = launch(build(3))
    event = {"event": "changed", "host": "w2", "file": "allreduce.py"}
    words = "srun: error: w2: task 1: Exited with exit code 65\n"
    for each in (job, replace(alone(job), ranks_per_node=1)):
        said = '1: {"event": "node", "host": "w2"}\n' + f"1: {json.dumps(event)}\n"
        (verdict,) = judge(replace(each, turns=each.turns[:1]), Completed(65, said, words))
        assert (verdict.status, verdict.node) == ("failed", "w2")
        assert (
            verdict.detail
            == "/opt/hpcforge/smoke_tests/allreduce.py is not the program of this launch, and was not run"
        )
        assert verdict.next_command == "hpcforge plan BLUEPRINT --limit w2"


class ReplayingHead(ScriptedHead):
    """Its step prints what it printed before: with the nonce of this launch, of another, or of none."""

    def __init__(self, nonce: str | None) -> None:
        super().__init__()
        self.nonce = nonce

    def run(self, argv: Any, **options: Any) -> Completed:
        text = " ".join(argv)
        if "srun" in argv and argv[-1] != submit.PORTS:
            found = STEP_OF.search(text)
            assert found and found[1]
            nonce = found[1] if self.nonce == "this" else self.nonce
            self.answers["srun"] = [Completed(0, printed(nonce), "")]
        return super().run(argv, **options)


def printed(nonce: str | None) -> str:
    lines = []
    for task, host in enumerate(("w1", "w2")):
        began = {"event": "node", "host": host, **({} if nonce is None else {"launch": nonce})}
        started = [{"event": "started", "rank": 2 * task + rank, "host": host, "test": "allreduce"} for rank in (0, 1)]
        lines += [f"{task}: {json.dumps(event)}\n" for event in (began, *started)]
    result = {"event": "result", "world_size": 4, "backend": "gloo", "device": "cpu", "seconds": 0.1}
    lines += [f"0: {json.dumps({**event, 'test': 'allreduce'})}\n" for event in (MEASURED["allreduce"], result)]
    return "".join(lines)


@pytest.mark.parametrize(
    ("nonce", "status"), [("this", "passed"), ("0" * 16, "unknown"), ("", "unknown"), (None, "unknown")]
)
def test_the_output_of_another_launch_is_no_pass(nonce: str | None, status: str, build: Build) -> None:
    cluster = build(2)
    assert cluster.acceptance
    (verdict,) = verify(cluster, ReplayingHead(nonce), {}, quiet, tests=cluster.acceptance.tests[:1])
    assert verdict.status == status, verdict.detail
