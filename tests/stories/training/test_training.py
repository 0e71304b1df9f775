"""Every way in which users train, on nodes: in all modes, saved and continued, a rank killed, a node killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcforge.lab import lab as labs
from hpcforge.lab.kinds import kind_of
from tests.support.real_site import Rehearsal
from tests.support.site import REPOSITORY

pytestmark = pytest.mark.lab

SITE = Path(__file__).parent / "site.yaml"
DOCUMENT = REPOSITORY / "docs" / "training.md"
OF_DATA = (
    "ddp",
    "ddp_accumulated",
    "ddp_bf16",
    "fsdp_zero3",
    "fsdp_zero2",
    "fsdp_hybrid",
    "fsdp_accumulated",
    "fsdp_bf16",
)
MODES = (*OF_DATA, "tensor", "fsdp_tensor", "pipeline_1f1b", "pipeline_interleaved")
SMOKE_TESTS = REPOSITORY / "smoke_tests"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    here = Rehearsal(tmp_path_factory.mktemp("training"), f"test-training-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")


@pytest.fixture(scope="module")
def verdicts(site: Rehearsal) -> dict[str, dict[str, Any]]:
    site.cli("rehearse", "up", str(SITE), "--nodes", "head,w[01-04]")
    site.cli("apply", str(SITE), "--yes", "--verify", "none")
    said = site.cli("verify", str(SITE), "--json")
    return {verdict["test"]: verdict for verdict in json.loads(said[said.index("{\n") :])["verdicts"]}


def test_every_mode_agrees_with_one_process(verdicts: dict[str, dict[str, Any]]) -> None:
    for name, modes in (("train_parallel", MODES), ("train_3d", ("pipeline_fsdp_tensor",))):
        verdict = verdicts[name]
        print(f"{name}: {verdict['seconds']} s")
        assert verdict["status"] == "passed", verdict
        whats = [assertion["what"] for assertion in verdict["assertions"]]
        assert [what for what in whats if what.endswith("gradients, 2-norm")] == [
            f"{m}: gradients, 2-norm" for m in modes
        ]
        for assertion in verdict["assertions"]:
            assert assertion["at_least"] <= assertion["error"] <= assertion["tolerance"]
        curves = [line for line in verdict["measurements"] if "loss_expected" in line]
        assert len(curves) == 6 * len(modes)
    assert (verdicts["train_parallel"]["ranks"], verdicts["train_3d"]["ranks"]) == (4, 8)


def test_a_checkpoint_of_four_ranks_continues_on_two(verdicts: dict[str, dict[str, Any]]) -> None:
    verdict = verdicts["checkpoint"]
    print(f"checkpoint: {verdict['headline']}, {[launch['seconds'] for launch in verdict['launches']]} s")
    assert [(launch["name"], launch["ranks"]) for launch in verdict["launches"]] == [("save", 4), ("load", 2)]
    assert verdict["status"] == "passed", verdict
    (saved,) = (line for line in verdict["measurements"] if "checkpoint_bytes" in line)
    assert saved["checkpoint_bytes"] > 64 << 20
    assert saved["files"] == 5  # one of each rank, and the list of what is in them


def test_a_killed_rank_costs_no_step(verdicts: dict[str, dict[str, Any]]) -> None:
    verdict = verdicts["restart"]
    print(f"restart: {verdict['headline']}")
    assert verdict["status"] == "passed", verdict
    (told,) = (line for line in verdict["measurements"] if "resume_s" in line)
    assert (told["resumed_after_step"], told["starts"]) == (6, 2)


def test_compare_says_what_the_storage_is(site: Rehearsal, verdicts: dict[str, dict[str, Any]]) -> None:
    assert verdicts
    said = site.cli("rehearse", "compare", str(SITE))
    assert "/scratch (nfs) is one folder of this machine, which all nodes share" in said


def test_slurm_requeues_a_job_whose_node_died(site: Rehearsal, verdicts: dict[str, dict[str, Any]]) -> None:
    """The job of the document: it continues on other nodes at its last complete checkpoint."""
    assert verdicts
    script = DOCUMENT.read_text().partition("<!-- requeued.sh -->\n```\n")[2].partition("```")[0]
    assert "--requeue" in script
    write = f"cat > /scratch/requeued.sh <<'END'\n{script}END\n"
    site.inside("head", f"sudo -u tests sh -c {quoted(write)}")
    site.becomes("head", "sinfo -h -o '%T %D'", "idle 4\n")
    number = site.inside(
        "head", "cd /scratch && sudo -u tests sbatch --parsable --nodelist=w[01-02] requeued.sh"
    ).strip()
    steps = f"cat /scratch/job-{number}/steps 2>/dev/null | wc -l"
    until(lambda: int(site.inside("head", steps)) >= 7)
    lab = labs.load(site.lab)
    assert lab is not None
    kind_of(lab).stop(lab, lab.node("w02"), graceful=False)
    killed_s = time.time()
    before = int(site.inside("head", steps))
    site.becomes("head", f"squeue -h -j {number} -o %r%T | grep -c BeginTime || :", "1\n")
    print(f"requeued {time.time() - killed_s:.0f} s after the kill")
    # What an administrator types: Slurm itself waits two minutes more.
    site.inside("head", f"sudo scontrol update JobId={number} ReqNodeList= StartTime=now")
    until(lambda: int(site.inside("head", steps)) > before)
    site.becomes("head", f"squeue -h -j {number} -t all -o %T", "COMPLETED\n")
    lines = [json.loads(line) for line in site.inside("head", f"cat /scratch/job-{number}/steps").splitlines()]
    last = [line for line in lines if line["start"] == lines[-1]["start"]]
    first = [line for line in lines if line["start"] == lines[0]["start"]]
    print(f"resumed {last[0]['at_s'] - killed_s:.0f} s after the kill, at step {last[0]['step']}")
    done = first[-1]["step"]
    assert last[0]["step"] in (done - done % 3 + 1, done - done % 3 - 2)  # the last checkpoint may have been under way
    assert [line["step"] for line in last] == list(range(last[0]["step"], last[-1]["step"] + 1))
    assert "none lost or doubled" in site.inside("head", f"cat /scratch/job-{number}.out")


def until(holds: Any) -> None:
    """Wait until something holds, five minutes at most."""
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(1)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def here(test: str, ranks: int, *arguments: str, restarts: int = 0) -> list[dict[str, Any]]:
    """The events of a test's ranks on this machine."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SMOKE_TESTS)}
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    program = [str(SMOKE_TESTS / test / f"{test}.py"), "--json", *arguments]
    ran = subprocess.run(
        [*command, f"--max_restarts={restarts}", *program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


def untrue(events: list[dict[str, Any]]) -> set[str]:
    """What does not hold of what was compared."""
    told = [event for event in events if event["event"] == "assertion"]
    assert told
    return {event["what"] for event in told if not event["at_least"] <= event["error"] <= event["tolerance"]}


@pytest.mark.parametrize("fault", ["lost", "doubled"])
def test_a_fault_in_any_mode_is_found(fault: str) -> None:
    found = untrue(here("train_parallel", 4, "--fault", f"all:{fault}"))
    assert {f"{mode}: gradients, 2-norm" for mode in MODES} <= found
    found = untrue(here("train_3d", 8, "--fault", f"all:{fault}"))
    assert "pipeline_fsdp_tensor: gradients, 2-norm" in found


@pytest.mark.parametrize(("fault", "where"), [("shard", "blocks.0.up.weight as loaded"), ("file", "SHA-256 of ")])
def test_a_wrong_checkpoint_is_found(fault: str, where: str, tmp_path: Path) -> None:
    here("checkpoint", 2, "--launch", "save", "--scratch", str(tmp_path), "--size-mib", "1")
    said = here("checkpoint", 2, "--launch", "load", "--scratch", str(tmp_path), "--size-mib", "1", "--fault", fault)
    assert any(event["where"].startswith(where) for event in said if event["event"] == "wrong")
    assert not any(event["event"] == "result" for event in said)


@pytest.mark.parametrize("fault", ["lost", "doubled", "shard"])
def test_a_wrong_restart_is_found(fault: str, tmp_path: Path) -> None:
    said = here("restart", 2, "--scratch", str(tmp_path), "--size-mib", "1", "--fault", fault, restarts=1)
    wrong = [event["where"] for event in said if event["event"] == "wrong"]
    assert any("optimizer" in where for where in wrong) or untrue(said)
    assert not any(event["event"] == "result" for event in said)
