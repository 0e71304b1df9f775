"""What the training tests share, and that they find what is wrong; on real nodes: tests/stories/training."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.smoke_tests.test_smoke_tests import PROGRAMS, python

SMOKE_TESTS = Path(__file__).parents[3] / "smoke_tests"
pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")
KINDS = ("fsdp_hybrid", "tensor", "pipeline_1f1b")


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_one_mode_of_each_kind_is_right_and_a_doubled_share_is_found() -> None:
    """The other modes and faults: tests/stories/training."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=4"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SMOKE_TESTS)}
    asked = ["--json", f"--modes=ddp,{','.join(KINDS)}", *(f"--fault={kind}:doubled" for kind in KINDS)]
    ran = subprocess.run(
        [*command, str(PROGRAMS["train_parallel"]), *asked],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    said = lines(ran.stdout)
    compared = [event for event in said if event["event"] == "assertion" and event["rank"] == 0]
    holds = {event["what"]: event["at_least"] <= event["error"] <= event["tolerance"] for event in compared}
    assert {what: holds[what] for what in holds if what.endswith("2-norm")} == {
        "ddp: gradients, 2-norm": True,
        **{f"{kind}: gradients, 2-norm": False for kind in KINDS},
    }
    assert {event["rank"] for event in said if event["event"] == "wrong"} == {0, 1, 2, 3}
    curve = [event for event in said if event["event"] == "measurement" and event.get("mode") == "ddp"]
    assert [event["step"] for event in curve] == list(range(6))
    assert curve[0]["loss"] == pytest.approx(curve[0]["loss_expected"], rel=1e-5)
    assert not any(event["event"] == "result" for event in said)
    assert ran.returncode != 0


def test_stages_are_the_model_and_the_reference_learns() -> None:
    code = """
import torch
from tiny_gpt import TinyGpt, batch, loss_of, trained_alone
inputs, targets = batch(3)
assert inputs[:, 1:].equal(targets[:, :-1]) and not batch(4)[0].equal(inputs)
whole, stages = TinyGpt(), [TinyGpt(number, 4) for number in range(4)]
x = inputs
for stage in stages:
    x = stage(x)
assert x.equal(whole(inputs))
names = [name for stage in stages for name, _ in stage.named_parameters()]
assert sorted(names) == sorted(dict(whole.named_parameters()))
losses = trained_alone(6).losses
print(losses[5] < losses[0] - 0.5)
"""
    assert python(code) == "True\n"


# Of settings 1 to 7, as one processor has them: another's rounding differs by far less than the tolerance.
LOSSES = (3.226680040359497, 3.7445411682128906, 2.2245607376098633, 3.1780779361724854, 0.7335054278373718,
          2.041069984436035, 0.051567193120718)  # fmt: skip


def test_a_search_whose_task_was_killed_goes_on_and_its_best_is_that_of_one_process(tmp_path: Path) -> None:
    for number, loss in enumerate(LOSSES, start=1):
        (tmp_path / f"{number}.json").write_text(json.dumps(loss))
    environment = {name: text for name, text in os.environ.items() if not name.startswith("SLURM_")}
    environment["PYTHONPATH"] = str(SMOKE_TESTS)

    def run(launch: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(PROGRAMS["hpo_array"]), "--json", f"--scratch={tmp_path}", f"--launch={launch}"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)

    assert run("first").returncode == -signal.SIGKILL
    assert not (tmp_path / "0.json").exists()
    ran = run("again")
    said = {event["event"]: event for event in lines(ran.stdout)}
    assert (ran.returncode, "result" in said, "wrong" in said) == (0, True, False), ran.stderr
    assert (said["measurement"]["settings"], said["measurement"]["best_rate"]) == (8, 0.4)
    assert sum(event["event"] == "assertion" for event in lines(ran.stdout)) == 8
